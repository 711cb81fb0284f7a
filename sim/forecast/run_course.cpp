#include "sim/forecast/run_course.hpp"

#include <algorithm>
#include <cmath>
#include <variant>

#include "core/error.hpp"
#include "policies/record/log_reader.hpp"
#include "policies/record/past.hpp"
#include "policies/seam/sample_columns.hpp"

namespace orrery::sim {
namespace {

constexpr double kSlow = 1.1;

/// Newest micro-batch time of each rank, in seconds.
using RankTimes = std::map<std::uint32_t, double>;

void add_times(const Observation& seen, RankTimes& times) {
  const auto rows = seen.samples.rows(SampleTable::ranks, {0});
  const auto column = seen.samples.column(SampleField::micro_batch_time, {0});
  if (column->size() != rows->size()) return;
  for (std::size_t i = 0; i < rows->size(); ++i) {
    if (!std::isnan(column->values[i])) times[rows->ids[i]] = column->values[i];
  }
}

std::map<std::uint32_t, double> slow_ranks(const RankTimes& times) {
  std::map<std::uint32_t, double> out;
  if (times.size() < 3) return out;  // two ranks do not show which one is slow
  std::vector<double> sorted;
  for (const auto& [rank, time] : times) sorted.push_back(time);
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() - 1) / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  for (const auto& [rank, time] : times) {
    if (*middle > 0 && time >= kSlow * *middle) out[rank] = time / *middle;
  }
  return out;
}

/// Adds the steps of one report; the newest of them was committed at `now`.
void add_steps(const StepsDone& done, Nanos now, bool calm, std::vector<StepCommit>& commits) {
  const Nanos length = done.duration / static_cast<Nanos>(done.count);
  for (std::uint64_t later = done.count; later-- > 0;) {
    commits.push_back({.step = done.last - later,
                       .at = now - static_cast<Nanos>(later) * length,
                       .length = length,
                       .calm = calm});
  }
}

}  // namespace

RunCourse read_course(const std::string& log, Nanos until, const Cluster& cluster) {
  Past past(log, until, cluster);
  RunCourse course;
  RankTimes times;
  bool calm = true;
  while (const std::optional<Observation> seen = past.next()) {
    for (const Event& event : seen->events) {
      if (const auto* done = std::get_if<StepsDone>(&event)) {
        add_steps(*done, seen->now, calm, course.commits);
        calm = true;
      } else if (const auto* lost = std::get_if<RanksLost>(&event)) {
        for (const RankId rank : lost->ranks) times.erase(rank.value);
        ++course.losses;
        calm = false;
      } else if (std::holds_alternative<JobStarted>(event) ||
                 std::holds_alternative<JobHeld>(event)) {
        calm = course.commits.empty();  // true at the begin of the run
      } else if (const auto* over = std::get_if<JobDone>(&event)) {
        if (over->how == Ending::completed) course.ended = seen->now;
      }
    }
    add_times(*seen, times);
    past.check_decisions(DecisionList(0));
  }
  course.now = past.now();
  course.slow = slow_ranks(times);
  return course;
}

LogTail read_tail(const std::string& log) {
  LogTail tail;
  LogReader reader(log);
  LogRecord record;
  try {
    while (reader.next(record)) {
      if (record.has_call()) tail.newest = record.call().observation().now();
      tail.is_complete = record.has_footer();
    }
  } catch (const Error&) {  // the newest record is not written yet
  }
  return tail;
}

}  // namespace orrery::sim
