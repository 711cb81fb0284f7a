#include "sim/replay/recorded_runs.hpp"

#include <algorithm>

namespace orrery::sim {

RecordedRuns::RecordedRuns(const NumberedTrace& trace, Rules rules)
    : trace_(trace), rules_(rules), jobs_(trace.size()) {}

void RecordedRuns::expect_end(std::uint32_t number, Way& way) {
  way.end = std::min(way.course.due(trace_.duration(number)), way.limit);
  ends_.push({way.end, number, jobs_[number].starts});
}

/// The first time its end is known, but where paces may change.
void RecordedRuns::start(std::uint32_t number, Nanos now, std::uint32_t nodes) {
  Job& job = jobs_[number];
  ++job.starts;
  job.nodes = nodes & 0x7FFF'FFFFu;
  const bool fresh = job.start < 0;
  if (fresh) job.start = now;
  const Nanos requested = trace_[number].requested_s * kNanosPerSecond;
  const Nanos limit = rules_.limited && requested > 0 ? requested : kNever;
  if (fresh && !rules_.paced && trace_.duration(number) <= limit) {
    return ends_.push({now + trace_.duration(number), number, job.starts});
  }
  Way& way = ways_[number];
  way.course.start(now, fresh ? 0 : rules_.restart_cost);
  way.limit = limit < kNever ? now + limit : kNever;
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
  JobCourse& course = known->second.course;
  if (first) course.start(job.start, 0);
  course.stop(now);
  if (keeps) course.fall_back(course.done() / *keeps * *keeps);
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
      way->second.course.stop(now);
      way->second.end = now;
    }
    return end.job;
  }
  return kNone;
}

}  // namespace orrery::sim
