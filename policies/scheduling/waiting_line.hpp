// What queues that look beyond their head share: the waiting jobs in order of submission, by size,
// and the walk through them. Base of fifo-skip and of both kinds of backfill. One thread.
#pragma once

#include <optional>
#include <vector>

#include "policies/scheduling/job_line.hpp"
#include "policies/scheduling/queue_policy.hpp"

namespace orrery {

/// Jobs of all sizes in one order, passing over those that are not welcome. The lines must not
/// change meanwhile.
class QueueWalk {
 public:
  static constexpr Nanos kNone = -1;
  struct Stop {
    std::uint32_t gpus = 0;
    const JobPlace* place = nullptr;
  };

  explicit QueueWalk(const JobLines& lines) {
    for (const auto& [gpus, line] : lines.by_size()) {
      if (!line.empty()) lanes_.push_back({gpus, &line, {}, false});
    }
  }
  /// The next job whose estimate is at most `longest(its GPUs)`; kNone: no job of that size. What
  /// is unwelcome once is passed over for good.
  template <class Longest>
  std::optional<Stop> next(const Longest& longest) {
    Lane* first = nullptr;
    const JobPlace* found = nullptr;
    for (Lane& lane : lanes_) {
      const Nanos most = lane.closed ? kNone : longest(lane.gpus);
      const JobPlace* const place = most < 0 ? nullptr : lane.line->seek(lane.at, most);
      if (place == nullptr || (found != nullptr && !(*place < *found))) continue;
      first = &lane;
      found = place;
    }
    if (found == nullptr) return {};
    first->line->advance(first->at);
    return Stop{first->gpus, found};
  }
  /// No more jobs of that size: one could not be placed, and less and less is free.
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

class WaitingLine : public QueuePolicy {
 public:
  /// Number and digest of the waiting jobs.
  void save(Archive& archive) const override;

 protected:
  void enter(const JobInfo& job, Nanos now) override;
  void run(const JobInfo& job, Nanos since) override;
  void leave(const JobInfo& job) override;
  void clear() override { waiting_.clear(); }

  const JobLines& waiting() const { return waiting_; }
  /// Decides to start a job, and takes it out of the line at the end of the pass.
  void begin(const JobSpec& job, GpuRuns gpus, const char* why, DecisionList& decisions);
  void end_pass();

 private:
  static JobPlace place_of(const JobSpec& job);

  JobLines waiting_;
  std::vector<const JobSpec*> begun_;  ///< in this pass
};

}  // namespace orrery
