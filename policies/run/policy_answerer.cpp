#include "policies/run/policy_answerer.hpp"

#include <memory>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "policies/record/samples_book.hpp"
#include "policies/run/waiting_policy.hpp"
#include "policies/seam/drive.hpp"

namespace orrery {
namespace {

/// Telemetry that the process of the run sends on request, each part once for each call.
class FetchedSamples : public SamplesBook {
 public:
  /// `asked`: question that the policy answers. `rows`: newest rows, those of `asked` included,
  /// which this object replaces by newer ones. All must outlive this object.
  FetchedSamples(const PolicyQuestion& asked, const PolicyAnswerer::Fetch& fetch, RowsByJob& rows)
      : asked_(asked), fetch_(fetch), rows_(rows) {}

 private:
  /// Requests the rows of a table together with the first column: one message each way. Of
  /// telemetry in hand only the read is told.
  void fetch_samples(const SamplesRead& wish) override {
    request_.Clear();
    *request_.mutable_wish() = wish;
    const std::optional<SampleTable> table = table_of_read(wish);
    if (!table) return add(*fetch_(request_));
    const JobId job{wish.job()};
    const bool lacks_rows = known_rows(*table, job) == nullptr;
    if (lacks_rows && wish.column() > 0) request_.mutable_wish()->mutable_rows();
    const auto held = rows_.extract({*table, job});  // a failure leaves no rows to rely on
    request_.set_holds_rows(!held.empty());
    const SamplesRead* const ahead = held.empty() ? nullptr : find_ahead(wish);
    request_.set_in_hand(ahead != nullptr);
    const SamplesRead* const sent = fetch_(request_);
    const bool has_newer = sent != nullptr && sent->has_rows();
    if (lacks_rows && !has_newer && !held.empty()) store(*table, job, held.mapped());
    if (sent != nullptr) {
      add(*sent);
    } else if (wish.column() > 0) {
      add(*ahead);
    }
    if (auto newest = known_rows(*table, job)) rows_[{*table, job}] = std::move(newest);
  }
  /// Returns the column of the wish among those that came with the question, or for a wish for rows
  /// any column of the table; null if there is none.
  const SamplesRead* find_ahead(const SamplesRead& wish) const {
    for (const SamplesRead& each : asked_.ahead()) {
      const bool is_wished = wish.column() == 0 || each.column() == wish.column();
      if (is_wished && each.what() == wish.what() && each.job() == wish.job()) return &each;
    }
    return nullptr;
  }

  const PolicyQuestion& asked_;
  const PolicyAnswerer::Fetch& fetch_;
  RowsByJob& rows_;
  PolicyAnswer request_;
};

/// Writes the rows that came with a question into `rows`.
void hold_rows(const PolicyQuestion& asked, RowsByJob& rows) {
  for (const SamplesRead& read : asked.ahead()) {
    const std::optional<SampleTable> table = table_of_read(read);
    if (!table || !read.has_rows()) continue;
    rows[std::pair(*table, JobId{read.job()})] =
        std::make_shared<SampleRows>(decode(read.rows(), *table));
  }
}

}  // namespace

PolicyAnswerer::PolicyAnswerer(Policy& policy, Cluster cluster, std::uint64_t seed)
    : policy_(policy),
      cluster_(std::move(cluster)),
      reader_(cluster_),
      rng_(policy_rng(seed)),
      context_{rng_, {}} {
  policy_.start(context_, cluster_, nullptr);
  const Needs needs = policy_.needs();
  context_.backend = {needs.actions, needs.settings};  // replaced with the first question
}

Archive PolicyAnswerer::state() const {
  Archive archive;
  policy_.save(archive);
  return archive;
}

NeedsRecord PolicyAnswerer::needs() const {
  NeedsRecord record;
  const Needs needs = policy_.needs();
  encode(needs, record);
  record.set_gpu_kinds(needs.gpu_kinds);
  record.set_gpu_parts(needs.gpu_parts);
  return record;
}

PolicyAnswer PolicyAnswerer::answer_question(const PolicyQuestion& asked, const Fetch& fetch) {
  hold_rows(asked, rows_);
  PolicyAnswer answer;
  auto* const waiting = dynamic_cast<WaitingPolicy*>(&policy_);
  if (asked.succeed()) {
    ensure(waiting != nullptr, "only policies with heirs are replaced");
    waiting->activate_heirs();
    *answer.mutable_needs() = needs();
    return answer;
  }
  if (asked.has_offered()) {
    const Needs offered = decode(asked.offered());
    context_.backend = {offered.actions, offered.settings};
  }
  for (const DecisionRecord& other : asked.others()) {
    const Decision decision = decode(other);
    reader_.world().announce_decision(decision);
    if (waiting != nullptr) waiting->announce_decision(decision);
  }
  FetchedSamples samples(asked, fetch, rows_);
  const Observation seen = reader_.read(asked.seen(), samples);
  if (asked.follow()) return answer;
  if (asked.has_state()) policy_.load(asked.state());
  DecisionList decisions(asked.next_decision());
  policy_.observe(context_, seen, decisions);
  for (const Decision& decision : decisions.items()) {
    reader_.world().announce_decision(decision);
    encode(decision, *answer.add_decisions());
  }
  for (const Nanos at : decisions.wake_times()) answer.add_wakes(at);
  for (const Note& note : decisions.notes()) encode(note, *answer.add_notes());
  answer.set_at_rest(decisions.is_resting());
  policy_.save(*answer.mutable_state());
  return answer;
}

bool parse_message(const std::string& bytes, WorkerMessage& message) {
  if (message.has_read()) {
    message.mutable_read()->Clear();  // clearing the message would free the telemetry
  } else if (message.has_ask()) {
    message.mutable_ask()->Clear();
  } else {
    message.Clear();
  }
  return message.MergeFromString(bytes);
}

}  // namespace orrery
