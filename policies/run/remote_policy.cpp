#include "policies/run/remote_policy.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "policies/run/policy_failure.hpp"

namespace orrery {

PolicyQuestion& RemotePolicy::fill_question(const Context& context, const Observation& seen) {
  PolicyQuestion& question = *message_.mutable_ask();
  if (seen.sequence == 0) {
    encode(Needs{context.backend.actions, context.backend.settings, 0},
           *question.mutable_offered());
  } else {
    question.clear_offered();
  }
  encode(seen, *question.mutable_seen());
  return question;
}

void RemotePolicy::throw_raised(const PolicyAnswer& answer) {
  if (answer.has_raised()) throw_failure(answer.raised());
  if (!answer.failure().empty()) throw Error(ErrorKind::bad_input, answer.failure());
}

void RemotePolicy::load(const Archive& archive) {
  state_ = archive;
  message_.mutable_ask()->set_state(archive);
}

void RemotePolicy::follow_observation(const Context& context, const Observation& seen) {
  PolicyQuestion& question = fill_question(context, seen);
  question.set_follow(true);
  channel_.send_message(message_);
  question.clear_others();
  question.clear_follow();
  own_begin_ = own_end_ = 0;
  throw_raised(channel_.receive_answer());
}

Needs RemotePolicy::activate_heirs() {
  WorkerMessage message;
  message.mutable_ask()->set_succeed(true);
  channel_.send_message(message);
  const PolicyAnswer answer = channel_.receive_answer();
  throw_raised(answer);
  set_needs(answer.needs());
  return needs_;
}

void RemotePolicy::add_likely_reads(Samples& samples, PolicyQuestion& question) {
  std::vector<std::tuple<SamplesRead::What, std::uint32_t, std::uint32_t>> likely;
  std::set_intersection(reads_.begin(), reads_.end(), reads_before_.begin(), reads_before_.end(),
                        std::back_inserter(likely));
  reads_before_ = std::exchange(reads_, {});
  Samples* const source = likely.empty() ? nullptr : samples.unrecorded();
  if (source == nullptr) return;
  for (const auto& [what, job, column] : likely) {
    SamplesRead wish;
    wish.set_what(what);
    wish.set_job(job);
    wish.set_column(column);
    wish.mutable_rows();
    read_changed_samples(*source, wish, sent_rows_, *question.add_ahead());
  }
}

void RemotePolicy::answer_wish(Samples& samples) {
  const SamplesRead& wish = answer_.wish();
  const std::optional<SampleTable> table = table_of_read(wish);
  if (table && !answer_.holds_rows()) {
    sent_rows_.erase(std::pair(*table, JobId{wish.job()}));
  } else if (table && wish.column() > 0) {
    reads_.emplace(wish.what(), wish.job(), wish.column());
  }
  if (answer_.in_hand()) return repeat_read(samples, wish);
  read_changed_samples(samples, wish, sent_rows_, *samples_.mutable_read());
  channel_.send_message(samples_);
}

void RemotePolicy::observe(Context& context, const Observation& seen, DecisionList& decisions) {
  PolicyQuestion& question = fill_question(context, seen);
  question.set_next_decision(decisions.next());
  add_likely_reads(seen.samples, question);
  channel_.send_message(message_);
  question.clear_ahead();
  question.clear_others();
  question.clear_state();
  own_begin_ = decisions.next();
  for (answer_ = channel_.receive_answer(); answer_.has_wish();
       answer_ = channel_.receive_answer()) {
    answer_wish(seen.samples);
  }
  throw_raised(answer_);
  state_.swap(*answer_.mutable_state());
  for (const DecisionRecord& record : answer_.decisions()) {
    Decision decision = decode(record);
    Decision& taken = decisions.add(std::move(decision.what), decision.why);
    decision.what = taken.what;
    decision.id = taken.id;
    taken = std::move(decision);
  }
  for (const Nanos at : answer_.wakes()) decisions.wake(at);
  for (const NoteRecord& record : answer_.notes()) {
    Note note = decode(record);
    decisions.add_note(std::move(note.key), std::move(note.value));
  }
  if (answer_.at_rest()) decisions.rest();
  own_end_ = decisions.next();
}

void RemotePolicy::announce_others(const DecisionList& all) {
  for (const Decision& decision : all.items()) {
    if (decision.id >= own_begin_ && decision.id < own_end_) continue;
    announce_decision(decision);
  }
}

void RemotePolicy::announce_decision(const Decision& decision) {
  encode(decision, *message_.mutable_ask()->add_others());
}

}  // namespace orrery
