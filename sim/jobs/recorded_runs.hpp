// How the jobs of a log run: each for as long as it did from its start on, unless it leaves its
// GPUs and goes on later, or gets on at another pace; and when the next one ends. Kept by
// sim/jobs/recorded_jobs; one thread. Nanoseconds of the policy clock; jobs by number.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <vector>

#include "core/ids.hpp"
#include "sim/jobs/job_course.hpp"
#include "sim/jobs/numbered_trace.hpp"

namespace orrery::sim {

class RecordedRuns {
 public:
  static constexpr std::uint32_t kNone = ~0u;

  /// `restart_cost`: each time a job goes on; `paced`: somebody says how fast jobs get on. The
  /// trace outlives this.
  RecordedRuns(const NumberedTrace& trace, Nanos restart_cost, bool paced);

  /// It has its GPUs now, in so many nodes.
  void start(std::uint32_t number, Nanos now, std::uint32_t nodes);
  /// From now on it does so much of its duration in a second.
  void set_pace(std::uint32_t number, Nanos now, double pace);
  /// It leaves its GPUs before its end. `keeps`: of what it has done it keeps whole multiples.
  void stop(std::uint32_t number, Nanos now, std::optional<Nanos> keeps);
  /// Nothing: none is running.
  std::optional<Nanos> next_end() const {
    while (!ends_.empty() && is_void(ends_.top())) ends_.pop();
    return ends_.empty() ? std::nullopt : std::optional(ends_.top().at);
  }
  /// One that ends by `now`: it is over. kNone: no other does.
  std::uint32_t end_one(Nanos now);

  // What became of one.
  bool over(std::uint32_t number) const { return jobs_[number].over == 1; }
  Nanos first_start(std::uint32_t number) const { return jobs_[number].start; }  ///< -1: none yet
  std::uint32_t nodes(std::uint32_t number) const { return jobs_[number].nodes; }
  /// Each leave and each start counts one.
  std::uint32_t moves(std::uint32_t number) const { return jobs_[number].starts; }
  // When it ended, for how long it had its GPUs, and what of that was lost; of one that is over.
  Nanos end(std::uint32_t number) const {
    const Way* const way = way_of(number);
    return way == nullptr ? jobs_[number].start + trace_.duration(number) : way->end;
  }
  Nanos ran(std::uint32_t number) const {
    const Way* const way = way_of(number);
    return way == nullptr ? trace_.duration(number) : way->course.served();
  }
  Nanos lost(std::uint32_t number) const {
    const Way* const way = way_of(number);
    return way == nullptr ? 0 : way->course.lost();
  }

 private:
  /// Millions of them are kept to the end: what only few jobs need is kept elsewhere, and what
  /// follows is reckoned.
  struct Job {
    Nanos start = -1;  ///< the first; -1: not yet
    std::uint32_t starts = 0;
    std::uint32_t nodes : 31 = 0;  ///< that it last stood in
    std::uint32_t over : 1 = 0;
  };
  static_assert(sizeof(Job) == 16);
  /// Of a job that has left its GPUs, or whose pace is not just as recorded.
  struct Way {
    JobCourse course;
    Nanos end = -1;  ///< as it goes now; in the end when that was
  };
  struct End {
    Nanos at = 0;
    std::uint32_t job = 0, start = 0;  ///< of which start of the job
    friend auto operator<=>(const End&, const End&) = default;
  };

  /// Null: it runs, or ran, from its start to its end as recorded.
  const Way* way_of(std::uint32_t number) const {
    if (jobs_[number].starts < 2 && !paced_) return nullptr;
    const auto way = ways_.find(number);
    return way == ways_.end() ? nullptr : &way->second;
  }
  /// It was taken off its GPUs before, or gets on at another pace.
  bool is_void(const End& end) const {
    const Job& job = jobs_[end.job];
    if (job.starts != end.start || job.over == 1) return true;
    return paced_ && ways_.at(end.job).end != end.at;
  }
  void expect_end(std::uint32_t number, Way& way);

  const NumberedTrace& trace_;
  const Nanos restart_cost_;
  const bool paced_;
  std::vector<Job> jobs_;
  std::map<std::uint32_t, Way> ways_;
  mutable std::priority_queue<End, std::vector<End>, std::greater<>> ends_;  ///< or void
};

}  // namespace orrery::sim
