// Common part of queues that look beyond their head: the waiting jobs in order of submission, by
// size, and the walk through them. Base of fifo-skip and of both backfill policies. One thread.
#pragma once

#include <optional>
#include <vector>

#include "policies/queues/job_line.hpp"
#include "policies/queues/queue_policy.hpp"

namespace orrery {

/// Walk over jobs of all sizes in one order, without the rejected ones. The lines must not change
/// meanwhile.
class QueueWalk {
 public:
  static constexpr Nanos kNone = -1;
  struct Stop {
    std::uint32_t gpus = 0;
    const JobPlace* place = nullptr;
  };

  /// Starts before the first job. `lines` must outlive the walk.
  explicit QueueWalk(const JobLines& lines) {
    for (const auto& [gpus, line] : lines.by_size()) {
      if (!line.empty()) lanes_.push_back({gpus, &line, {}, false});
    }
  }
  /// Returns the next job whose estimate is at most `longest(its GPUs)`; a negative limit, such as
  /// kNone, means no job of that size now; nothing if no such job is left. The walk moves behind
  /// the returned job and never returns it again. A job whose estimate was above a limit of 0 or
  /// more may be skipped for good.
  template <class Longest>
  std::optional<Stop> next(const Longest& longest) {
    Lane* first = nullptr;
    const JobPlace* found = nullptr;
    for (Lane& lane : lanes_) {
      const Nanos most = lane.closed ? kNone : longest(lane.gpus);
      const JobPlace* const place = most < 0 ? nullptr : lane.line->seek_place(lane.at, most);
      if (place == nullptr || (found != nullptr && !(*place < *found))) continue;
      first = &lane;
      found = place;
    }
    if (found == nullptr) return {};
    first->line->advance_cursor(first->at);
    return Stop{first->gpus, found};
  }
  /// Skips all further jobs of that size: one could not be placed, and the free GPUs only decrease.
  void close(std::uint32_t gpus) {
    for (Lane& lane : lanes_) lane.closed = lane.closed || lane.gpus == gpus;
  }

 private:
  struct Lane {
    std::uint32_t gpus;
    const JobLine* line;
    JobLine::Cursor at;
    bool closed;
  };
  std::vector<Lane> lanes_;
};

/// Base of queue policies that skip jobs.
class WaitingLine : public QueuePolicy {
 public:
  /// Writes number and digest of the waiting jobs, for comparisons; load() rebuilds the queue from
  /// the job table.
  void save(Archive& archive) const override;

 protected:
  void enter_queue(const JobInfo& job, Nanos now) override;
  void run(const JobInfo& job, Nanos since) override;
  void remove_job(const JobInfo& job) override;
  void clear() override;

  /// Returns the waiting jobs.
  const JobLines& waiting() const { return waiting_; }
  /// Decides to start a job, which stays in the line until end_pass(). Keeps a pointer to `job`
  /// until then.
  void begin(const JobSpec& job, GpuRuns gpus, const char* why, DecisionList& decisions);
  /// Removes the jobs that begin() has started from the line.
  void end_pass();

 private:
  static JobPlace place_of(const JobSpec& job);
  void erase_place(const JobSpec& job);

  JobLines waiting_;
  std::vector<bool> is_waiting_;         ///< bits by id: true for the jobs of waiting_
  std::vector<const JobSpec*> begun_;  ///< jobs started in this pass
};

}  // namespace orrery
