#include "sim/planning/recorded_facts.hpp"

#include <algorithm>
#include <optional>

#include "core/ids.hpp"
#include "policies/record/log_reader.hpp"
#include "traces/trace.pb.h"

namespace orrery::sim {
namespace {

/// Step times that are kept of a group of equal steps.
constexpr std::uint64_t kMostOfGroup = 1000;

/// Collects the facts of the first job, event by event.
class FactReader {
 public:
  void read(const CallRecord& call) {
    const Nanos now = call.observation().now();
    if (!begun_) begun_ = now;
    facts_.elapsed_s = to_seconds(now - *begun_);
    for (const EventRecord& event : call.observation().events()) read_event(event, now);
  }
  /// Returns the facts; call once, after the last call record.
  RunFacts facts() {
    const double mean = facts_.steps > 0 ? facts_.worked_s / static_cast<double>(facts_.steps) : 0;
    for (double& each : facts_.repeated_s) each *= mean;
    return std::move(facts_);
  }

 private:
  void read_event(const EventRecord& event, Nanos now) {
    if (event.has_steps_done() && event.steps_done().job() == 0) {
      read_steps(event.steps_done(), now);
    }
    if (event.has_ranks_lost() && event.ranks_lost().job() == 0 && !lost_at_) lost_at_ = now;
    if (event.has_job_started() && event.job_started().job() == 0) {
      const std::uint64_t from = event.job_started().from();
      // Steps until the mean step time is known.
      if (from < next_) facts_.repeated_s.push_back(static_cast<double>(next_ - from));
      next_ = std::max(from, std::uint64_t{0});
    }
    if (event.has_save_done() && event.save_done().job() == 0) {
      ++facts_.saves;
      facts_.saves_failed += !event.save_done().durable();
      facts_.stalls_s.push_back(to_seconds(event.save_done().stalled_ns()));
    }
  }

  void read_steps(const StepsDoneRecord& done, Nanos now) {
    const double all = to_seconds(done.duration_ns());
    facts_.worked_s += all;
    facts_.steps += done.count();
    const std::uint64_t kept = std::min(done.count(), kMostOfGroup);
    if (done.count() > 0) {
      facts_.step_s.insert(facts_.step_s.end(), kept, all / static_cast<double>(done.count()));
    }
    next_ = done.last() + 1;
    if (!lost_at_) return;
    facts_.standstill_s.push_back(to_seconds(now - *lost_at_));
    lost_at_.reset();
  }

  RunFacts facts_;
  std::optional<Nanos> begun_, lost_at_;
  std::uint64_t next_ = 0;  ///< first step that is not committed
};

}  // namespace

RecordedTraining read_training(const std::string& path) {
  LogReader log(path);
  const LogHeader header = read_header(log);
  if (!header.scenario().has_job()) {
    log.refuse_log("is no log of a training job: the training spec has rules for these only");
  }
  FactReader reader;
  LogRecord record;
  while (log.next(record)) {
    if (record.has_call()) reader.read(record.call());
  }
  return {header.scenario(), reader.facts()};
}

}  // namespace orrery::sim
