// Queues in which running jobs make room for those that go first. In a pass all jobs, running and
// waiting, stand in one order; going through it each is selected whose GPUs are still within the
// cluster's number, others are passed over. Running jobs that are not selected are taken off first,
// then selected waiting ones are placed in order; one that cannot be placed stays where it is in
// the queue. Taking off costs nothing here: what it costs is the backend's. One thread; nanoseconds
// of the policy clock.
//
// Running jobs go before waiting ones of equal key and submission, otherwise who started or entered
// the queue first. A job that was taken off enters the queue at its end.
#pragma once

#include <map>
#include <vector>

#include "policies/scheduling/job_line.hpp"
#include "policies/scheduling/queue_policy.hpp"

namespace orrery {

class PreemptivePolicy : public QueuePolicy {
 public:
  /// Numbers and digests of the waiting and the running jobs.
  void save(Archive& archive) const override;

 protected:
  struct Track {
    JobPlace place;  ///< in its line
    std::uint32_t gpus = 0;
    std::int64_t priority = 0;
    bool running = false;
    Nanos since = 0;   ///< it runs
    Nanos served = 0;  ///< it ran before
  };
  /// By what jobs of one size stand in order, as long as they wait, or run. It must not change
  /// meanwhile, but by file_anew().
  virtual std::int64_t key_of(const Track& job) const = 0;
  /// What jobs of all sizes are compared by at an instant; never falls within a line.
  virtual std::int64_t rank(const JobPlace& place, std::uint32_t gpus, bool running,
                            Nanos now) const = 0;
  /// Told of every job that begins to run or runs no longer.
  virtual void runs(const Track&) {}
  virtual void rests(const Track&) {}
  virtual const char* reason() const = 0;
  /// After every pass.
  virtual void passed(DecisionList&) {}

  void clear() override;
  void dispatch(const Observation& seen, DecisionList& decisions) override;
  void file_anew(JobId job);

 private:
  struct Lane;
  struct Selection {
    std::vector<JobId> off, on;  ///< in order
  };
  class Selecting;

  void enter(const JobInfo& job, Nanos now) override;
  void run(const JobInfo& job, Nanos since) override;
  void leave(const JobInfo& job) override;
  bool stop_is_news(Nanos now) const override { return now != taken_off_at_; }
  JobLines& line_of(const Track& job) { return job.running ? running_ : waiting_; }
  void file(Track& job);
  void take_out(Track& job);
  void begin(Track& job, Nanos now);
  void stop(Track& job, Nanos now);
  void take_off(const Observation& seen, const std::vector<JobId>& jobs, DecisionList& decisions);
  void put_on(const Observation& seen, const std::vector<JobId>& jobs, DecisionList& decisions);

  std::map<JobId, Track> jobs_;
  JobLines waiting_, running_;
  std::uint64_t running_gpus_ = 0, turns_ = 0;
  Nanos taken_off_at_ = -1;
};

}  // namespace orrery
