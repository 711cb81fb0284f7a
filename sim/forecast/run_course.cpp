#include "sim/forecast/run_course.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "core/error.hpp"
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

RunCourseReader::RunCourseReader(const std::string& log, const Cluster& cluster)
    : log_(log), reader_(cluster) {
  read_header(log_);
}

bool RunCourseReader::read_call() {
  LogRecord record;
  if (is_complete_ || !log_.next_written(record)) return false;
  is_complete_ = record.has_footer();
  if (record.has_call()) waiting_.push_back(std::move(*record.mutable_call()));
  return record.has_call();
}

bool RunCourseReader::has_call_after(Nanos until) {
  const auto is_later = [this, until] {
    return !waiting_.empty() && waiting_.back().observation().now() > until;
  };
  while (!is_later()) {
    if (!read_call()) return false;
  }
  return true;
}

const RunCourse& RunCourseReader::course_at(Nanos until) {
  has_call_after(until);
  for (; !waiting_.empty() && waiting_.front().observation().now() <= until; waiting_.pop_front()) {
    try {
      add_call(waiting_.front());
    } catch (const Error& error) {
      log_.refuse_last(error.message());
    }
  }
  course_.slow = slow_ranks(times_s_);
  return course_;
}

void RunCourseReader::add_call(const CallRecord& call) {
  samples_.clear();
  for (const SamplesRead& read : call.read()) samples_.add(read);
  const Observation seen = reader_.read(call.observation(), samples_);
  for (const Event& event : seen.events) add_event(event, seen.now);
  add_times(seen, times_s_);
  course_.now = seen.now;
  for (const DecisionRecord& decision : call.decisions()) {
    reader_.world().announce_decision(decode(decision));
  }
}

void RunCourseReader::add_event(const Event& event, Nanos now) {
  if (const auto* done = std::get_if<StepsDone>(&event)) {
    add_steps(*done, now, is_calm_, course_.commits);
    is_calm_ = true;
  } else if (const auto* lost = std::get_if<RanksLost>(&event)) {
    for (const RankId rank : lost->ranks) times_s_.erase(rank.value);
    ++course_.losses;
    is_calm_ = false;
  } else if (std::holds_alternative<JobStarted>(event) || std::holds_alternative<JobHeld>(event)) {
    is_calm_ = course_.commits.empty();  // true at the begin of the run
  } else if (const auto* over = std::get_if<JobDone>(&event)) {
    if (over->how == Ending::completed) course_.ended = now;
  }
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
