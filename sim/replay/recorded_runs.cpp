#include "sim/replay/recorded_runs.hpp"

#include <algorithm>

namespace orrery::sim {

RecordedRuns::RecordedRuns(const NumberedTrace& trace, Rules rules)
    : trace_(trace), rules_(rules), jobs_(trace.size()) {}

void RecordedRuns::expect_end(std::uint32_t number, Way& way) {
  way.end = std::min(way.course.due(trace_.duration(number)), way.limit);
  ends_.push({way.end, number, jobs_[number].starts});
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
  if (fresh && !rules_.paced && !variable && trace_.duration(number) <= limit) {
    return ends_.push({now + trace_.duration(number), number, job.starts});
  }
  Way& way = ways_[number];
  way.course.start(now, fresh ? 0 : rules_.restart_cost);
  if (variable) way.course.set_pace(now, size.pace);
  way.gpus = size.gpus;
  way.limit = limit < kNever ? now + limit : kNever;
  expect_end(number, way);
}

void RecordedRuns::resize(std::uint32_t number, Nanos now, std::uint32_t nodes, RunSize size) {
  Job& job = jobs_[number];
  Way& way = ways_.at(number);
  stop_course(way, now, {});
  way.course.start(now, rules_.restart_cost);
  way.course.set_pace(now, size.pace);
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

void RecordedRuns::stop(std::uint32_t number, Nanos now, std::optional<Nanos> keeps) {
  Job& job = jobs_[number];
  const auto [known, first] = ways_.try_emplace(number);
  Way& way = known->second;
  if (first) way.course.start(job.start, 0);
  stop_course(way, now, keeps);
  ++job.starts;  // its end in the queue is void
}

std::uint32_t RecordedRuns::end_one(Nanos now) {
  while (!ends_.empty() && ends_.top().at <= now) {
    const End end = ends_.top();
    const bool is_past = is_void(end);
    ends_.pop();
    if (is_past) continue;
    jobs_[end.job].over = 1;
    if (const auto way = ways_.find(end.job); way != ways_.end()) {
      stop_course(way->second, now, {});
      way->second.end = now;
    }
    return end.job;
  }
  return kNone;
}

}  // namespace orrery::sim
