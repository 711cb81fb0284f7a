#include "policies/run/remote_policy.hpp"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "policies/run/policy_program.hpp"
#include "policies/run/registry.hpp"
#include "policies/run/worker.hpp"
#include "policies/seam/drive.hpp"
#include "topologies/builder.hpp"

namespace orrery {
namespace {

constexpr int kPollMs = 100;
constexpr std::chrono::milliseconds kEndGrace{1000};
constexpr int kNoPackage = 64, kNoProgram = 127;  // exit codes of a host that cannot work
constexpr int kPatientPolls = 25;                 // a run that is interrupted still asks

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

Cluster cluster_of(const PolicyHostOrder& order) {
  if (order.has_replay()) return orrery::cluster_of(order.replay());
  return build_cluster(order.scenario().cluster(), SourceMap{});
}

}  // namespace

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

void WaitingPolicy::activate_heirs() {
  throw Error(ErrorKind::internal, "only policies with heirs are replaced");
}

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
  encode(policy_.needs(), record);
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

std::string policy_failure(const std::exception& error) {
  const auto* own = dynamic_cast<const Error*>(&error);
  if (own == nullptr || !own->source_place()) {
    return fmt::format("the policy failed: {}", own == nullptr ? error.what() : own->message());
  }
  const SourcePlace& place = *own->source_place();
  return fmt::format("the policy failed: {}:{}: {}", place.file, place.line, own->message());
}

Failure failure_record(const Error& error) {
  Failure failure;
  failure.set_kind(static_cast<std::uint32_t>(error.kind()));
  failure.set_message(error.message());
  if (error.source_place()) {
    failure.set_file(error.source_place()->file);
    failure.set_line(error.source_place()->line);
    failure.set_column(error.source_place()->column);
    failure.set_line_text(error.source_place()->line_text);
  }
  return failure;
}

void throw_failure(const Failure& failure) {
  if (!failure.file().empty()) {
    throw Error(SourcePlace{failure.file(), failure.line(), failure.column(), failure.line_text()},
                failure.message());
  }
  const bool known = failure.kind() >= 1 && failure.kind() <= 5;
  throw Error(known ? static_cast<ErrorKind>(failure.kind()) : ErrorKind::internal,
              failure.message());
}

/// Running policy host with the policy that asks it.
class HostPolicy::Host : public PolicyChannel {
 public:
  Host(const Program& program, const PolicyHostOrder& order,
       const std::function<bool()>& interrupted, const std::function<bool()>& withdrawn)
      : child_(program.path, program.arguments),
        interrupted_(interrupted),
        withdrawn_(withdrawn),
        policy_(*this) {
    write_message(child_.channel(), order.SerializeAsString());  // a dead host is reported below
    const PolicyAnswer first = first_answer(program);
    if (!program.name.empty()) check_api(program.name, first);
    if (first.has_raised()) throw_failure(first.raised());
    policy_.set_needs(first.needs());
    policy_.set_state(first.state());
  }

  /// Lets the process end by itself, so that it writes what the policies have printed.
  ~Host() override {
    child_.close_channel();
    child_.wait_for(kEndGrace);
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  void send_message(const WorkerMessage& message) override {
    message.SerializeToString(&bytes_);
    if (!write_message(child_.channel(), bytes_)) report_end();
  }
  PolicyAnswer receive_answer() override {
    pollfd channel{child_.channel(), POLLIN, 0};
    for (int polls = 0; ::poll(&channel, 1, kPollMs) <= 0;) {
      if (interrupted_ && interrupted_() && ++polls > kPatientPolls) throw Interrupted();
      if (withdrawn_ && withdrawn_()) {
        child_.signal(SIGKILL);
        throw AnswerWithdrawn();
      }
    }
    if (!read_message(child_.channel(), bytes_)) report_end();
    PolicyAnswer answer;
    ensure(answer.ParseFromString(bytes_), "a policy host sends PolicyAnswers");
    return answer;
  }
  RemotePolicy& policy() { return policy_; }

 private:
  /// Returns the needs, or the reason why the policies could not be made.
  PolicyAnswer first_answer(const Program& program) {
    try {
      return receive_answer();
    } catch (const Interrupted&) {
      throw;
    } catch (const Error&) {
      const ExitStatus status = child_.wait();
      if (!program.name.empty()) {
        throw Error(ErrorKind::bad_input,
                    fmt::format("{}: expected a policy, which is a program built with the CMake "
                                "package OrreryPolicy, found a program that ended: {}",
                                program.name, status.description()));
      }
      if (status.code == kNoPackage || status.code == kNoProgram) {
        throw Error(ErrorKind::environment, program.absence);
      }
      throw;
    }
  }
  static void check_api(const std::string& name, const PolicyAnswer& first) {
    if (first.has_api() && first.api() == kPolicyApi) return;
    const std::string found =
        first.has_api() ? fmt::format("version {}", first.api()) : std::string("no version");
    throw Error(ErrorKind::bad_input,
                fmt::format("{}: expected a policy of API version {}, found {}; build the policy "
                            "again with the CMake package OrreryPolicy of this orrery",
                            name, kPolicyApi, found));
  }
  [[noreturn]] void report_end() {
    throw Error(ErrorKind::environment,
                fmt::format("the process of the policies ended: {}", child_.wait().description()));
  }

  ChildProcess child_;
  const std::function<bool()>& interrupted_;
  const std::function<bool()>& withdrawn_;
  std::string bytes_;  ///< newest message in either direction
  RemotePolicy policy_;
};

HostPolicy::HostPolicy(Program program, PolicyHostOrder order, std::function<bool()> interrupted)
    : program_(std::move(program)),
      order_(std::move(order)),
      interrupted_(std::move(interrupted)) {}
HostPolicy::~HostPolicy() = default;

Needs HostPolicy::needs() const {
  ensure(host_ != nullptr, "a policy host is started before it is asked");
  return host_->policy().needs();
}
void HostPolicy::start(Context&, const Cluster&, const google::protobuf::Message*) {
  host_.reset();
  host_ = std::make_unique<Host>(program_, order_, interrupted_, withdrawn_);
}
void HostPolicy::observe(Context& context, const Observation& seen, DecisionList& decisions) {
  host_->policy().observe(context, seen, decisions);
}
void HostPolicy::announce_others(const DecisionList& all) { host_->policy().announce_others(all); }
void HostPolicy::save(Archive& archive) const { host_->policy().save(archive); }
void HostPolicy::load(const Archive& archive) { host_->policy().load(archive); }
void HostPolicy::follow_observation(const Context& context, const Observation& seen) {
  host_->policy().follow_observation(context, seen);
}
void HostPolicy::announce_decision(const Decision& decision) {
  host_->policy().announce_decision(decision);
}

void serve_policy(const std::function<std::unique_ptr<Policy>(const PolicyHostOrder&)>& make_policy,
                  const std::function<Failure(const std::exception&)>& failure_of,
                  std::optional<std::uint32_t> api) {
  std::string bytes;  // newest message in either direction
  const auto send = [&bytes](const PolicyAnswer& answer) {
    answer.SerializeToString(&bytes);
    return write_message(kChildDescriptor, bytes);
  };
  const auto receive = [&bytes](WorkerMessage& message) {
    if (!read_message(kChildDescriptor, bytes)) return false;
    ensure(parse_message(bytes, message), "a policy host is sent WorkerMessages");
    return true;
  };
  WorkerMessage telemetry;
  const auto fetch = [&](const PolicyAnswer& request) -> const SamplesRead* {
    send(request);
    if (request.in_hand()) return nullptr;
    const bool sent = receive(telemetry);
    if (!sent) throw Error(ErrorKind::environment, "the process of the run is gone");
    return &telemetry.read();
  };
  PolicyAnswer answer;
  try {
    PolicyHostOrder order;
    ensure(read_message(kChildDescriptor, bytes) && order.ParseFromString(bytes),
           "a policy host is sent its order first");
    const std::unique_ptr<Policy> policy = make_policy(order);
    PolicyAnswerer answerer(*policy, cluster_of(order), order.seed());
    *answer.mutable_needs() = answerer.needs();
    *answer.mutable_state() = answerer.state();
    if (api) answer.set_api(*api);
    WorkerMessage question;
    while (send(answer)) {
      if (!receive(question)) return;
      answer = answerer.answer_question(question.ask(), fetch);
    }
  } catch (const std::exception& error) {
    answer.Clear();
    *answer.mutable_raised() = failure_of(error);
    if (api) answer.set_api(*api);
    send(answer);
  }
}

}  // namespace orrery
