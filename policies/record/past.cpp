#include "policies/record/past.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {
namespace {

LogHeader scenario_header(LogReader& log) {
  LogHeader header = read_header(log);
  if (!header.has_scenario()) {
    log.refuse_last(
        "is the log of a queue of jobs: expected the log of a training run "
        "(orrery simulate or live --record LOG)");
  }
  return header;
}

}  // namespace

LogHeader log_header(const std::string& path) {
  LogReader log(path);
  return scenario_header(log);
}

Nanos log_end(const std::string& path) {
  LogReader log(path);
  scenario_header(log);
  Nanos end = 0;
  for (LogRecord record; log.next(record) && record.has_call();) {
    end = record.call().observation().now();
  }
  return end;
}

Past::Past(const std::string& path, std::optional<Nanos> until, const Cluster& cluster)
    : log_(path), header_(scenario_header(log_)), until_(until), reader_(cluster) {}

/// A log may end without a footer: its run is still going on, or was killed.
std::optional<Observation> Past::next() {
  if (told_ || !log_.next(record_) || !record_.has_call() ||
      (until_ && record_.call().observation().now() > *until_)) {
    told_ = true;
    return {};
  }
  try {
    if (!record_.call().given_up().empty()) {
      throw Error(ErrorKind::bad_input,
                  "expected policies that answered every call, found a call in which the run gave "
                  "them up; continue from an earlier instant (--from LOG@TIME)");
    }
    samples_.clear();
    for (const SamplesRead& read : record_.call().read()) samples_.add(read);
    batch_ = batch_of_job();
    const Observation seen = reader_.read(record_.call().observation(), samples_);
    now_ = seen.now;
    ++calls_;
    for (const Event& event : seen.events) record_event(event);
    wakes_.erase(wakes_.begin(), wakes_.upper_bound(now_));
    return seen;
  } catch (const Error& error) {
    log_.refuse_last(error.message());
  }
}

/// Returns the micro-batches of a step of the log's only job; 0 before its submission.
std::uint32_t Past::batch_of_job() {
  const JobInfo* const job = reader_.world().jobs().find({0});
  return job == nullptr ? 0 : job->micro_batches();
}

void Past::record_event(const Event& event) {
  if (const auto* done = std::get_if<StepsDone>(&event)) {
    steps_.push_back(*done);
    batches_.push_back(batch_ > 0 ? batch_ : batch_of_job());
    last_commit_ = now_;
    lost_in_step_.clear();
  } else if (const auto* lost = std::get_if<RanksLost>(&event)) {
    lost_in_step_.insert(lost->ranks.begin(), lost->ranks.end());
    std::erase_if(effects_, [lost](const auto& effect) { return effect.first == lost->job; });
  } else if (const auto* outcome = std::get_if<Decided>(&event)) {
    const auto decision = open_.extract(outcome->decision);
    if (decision.empty() || outcome->status != Outcome::applied) return;
    effects_.emplace(job_of(decision.mapped().what), decision.mapped().at_step);
  }
}

void Past::check_decisions(const DecisionList& decisions) {
  const CallRecord& call = record_.call();
  std::vector<Decision> recorded;
  for (const DecisionRecord& record : call.decisions()) recorded.push_back(decode(record));
  const auto same = [](const Decision& a, const Decision& b) {
    DecisionRecord first, second;
    encode(a, first);
    encode(b, second);
    return first.SerializeAsString() == second.SerializeAsString();
  };
  if (compares_ && !std::equal(recorded.begin(), recorded.end(), decisions.items().begin(),
                               decisions.items().end(), same)) {
    log_.refuse_last(
        fmt::format("the policies' decisions at {} s differ from the recorded ones: "
                    "`orrery replay` shows the difference",
                    to_seconds(now_)));
  }
  for (Decision& decision : recorded) {
    reader_.world().announce_decision(decision);
    if (receive_ && !compares_) receive_(decision);
    open_[decision.id] = std::move(decision);
  }
  wakes_.insert(call.wakes().begin(), call.wakes().end());
}

std::vector<Decision> Past::open() const {
  std::vector<Decision> decisions;
  for (const auto& [id, decision] : open_) decisions.push_back(decision);
  return decisions;
}

}  // namespace orrery
