#include "sim/replay/recorded_runs.hpp"

#include <algorithm>

namespace orrery::sim {

RecordedRuns::RecordedRuns(const NumberedTrace& trace, Rules rules)
    : trace_(trace), rules_(rules), jobs_(trace.size()) {}

void RecordedRuns::expect_end(std::uint32_t number, Way& way) {
  way.end = std::min(way.course.due(trace_.duration(number)), way.limit);
  if (has_moving_ends() && way.end >= way.queued) return;
  way.queued = way.end;
  ends_.push({way.end, number, jobs_[number].starts});
}

void RecordedRuns::drop_void_ends() const {
  while (!ends_.empty()) {
    const End end = ends_.top();
    const Job& job = jobs_[end.job];
    const bool is_newest = job.starts == end.start && job.over == 0;
    if (is_newest && !has_moving_ends()) return;
    const Way* const way = is_newest ? &ways_.at(end.job) : nullptr;
    if (is_newest && way->end == end.at) return;
    ends_.pop();
    if (!is_newest || way->queued != end.at) continue;
    way->queued = way->end;
    ends_.push({way->end, end.job, end.start});
  }
}

void RecordedRuns::stop_course(Way& way, Nanos now, std::optional<Nanos> keeps) {
  const Nanos served = way.course.served_time(), lost = way.course.lost_time();
  way.course.stop(now);
  if (keeps) way.course.fall_back(way.course.done() / *keeps * *keeps);
  way.gpu_time.used += to_seconds(way.course.served_time() - served) * way.gpus;
  way.gpu_time.lost += to_seconds(way.course.lost_time() - lost) * way.gpus;
}

/// The first time its end is known, but where paces or sizes may change.
void RecordedRuns::start(std::uint32_t number, Nanos now, std::uint32_t nodes, RunSize size) {
  Job& job = jobs_[number];
  ++job.starts;
  job.nodes = nodes & 0x7FFF'FFFFu;
  const bool fresh = job.start < 0;
  if (fresh) job.start = now;
  const Nanos requested = trace_[number].requested_s * kNanosPerSecond;
  const Nanos limit = rules_.limited && requested > 0 ? requested : kNever;
  const bool variable = is_variable(number);
  if (fresh && !has_moving_ends() && !variable && trace_.duration(number) <= limit) {
    return ends_.push({now + trace_.duration(number), number, job.starts});
  }
  Way& way = ways_[number];
  way.queued = kNever;
  way.course.start(now, fresh ? 0 : rules_.restart_cost);
  if (variable) way.pace = size.pace;
  if (variable || rules_.clocked) way.course.set_pace(now, way.pace * clock_);
  if (rules_.clocked) running_.insert(number);
  way.gpus = size.gpus;
  way.limit = limit < kNever ? now + limit : kNever;
  expect_end(number, way);
}

void RecordedRuns::resize(std::uint32_t number, Nanos now, std::uint32_t nodes, RunSize size) {
  Job& job = jobs_[number];
  Way& way = ways_.at(number);
  stop_course(way, now, {});
  way.queued = kNever;
  way.pace = size.pace;
  way.course.start(now, rules_.restart_cost);
  way.course.set_pace(now, way.pace * clock_);
  way.gpus = size.gpus;
  ++way.resizes;
  job.starts += 2;  // its end in the queue is void
  job.nodes = nodes & 0x7FFF'FFFFu;
  expect_end(number, way);
}

void RecordedRuns::set_pace(std::uint32_t number, Nanos now, double pace) {
  Way& way = ways_.at(number);
  way.course.set_pace(now, pace);
  expect_end(number, way);
}

void RecordedRuns::set_clock(Nanos now, double clock) {
  if (clock == clock_) return;
  clock_ = clock;
  for (const std::uint32_t number : running_) {
    Way& way = ways_.at(number);
    way.course.set_pace(now, way.pace * clock);
    expect_end(number, way);
  }
}

void RecordedRuns::stop(std::uint32_t number, Nanos now, std::optional<Nanos> keeps) {
  Job& job = jobs_[number];
  const auto [known, first] = ways_.try_emplace(number);
  Way& way = known->second;
  if (first) way.course.start(job.start, 0);
  stop_course(way, now, keeps);
  running_.erase(number);
  ++job.starts;  // its end in the queue is void
}

std::uint32_t RecordedRuns::end_one(Nanos now) {
  drop_void_ends();
  if (ends_.empty() || ends_.top().at > now) return kNone;
  const std::uint32_t number = ends_.top().job;
  ends_.pop();
  jobs_[number].over = 1;
  running_.erase(number);
  if (const auto way = ways_.find(number); way != ways_.end()) {
    stop_course(way->second, now, {});
    way->second.end = now;
  }
  return number;
}

}  // namespace orrery::sim
