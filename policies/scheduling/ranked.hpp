// Queues whose order changes while nothing happens: by service had, by shares of tenants, by how
// late a job is. Every pass looks at all jobs, running and waiting, and selects those that are to
// run; running ones that are not selected are taken off first, then the selected waiting ones are
// placed in the order in which they were selected. One that cannot be placed stays in the queue.
// Taking off costs nothing here: what it costs is the backend's. Base of gittins,
// finish-time-fairness, drf and max-min. One thread; nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "policies/scheduling/queue_policy.hpp"

namespace orrery {

class RankedPolicy : public QueuePolicy {
 public:
  /// Number and digest of the jobs.
  void save(Archive& archive) const override;

 protected:
  struct Track {
    JobId id;
    std::uint32_t pool = 0;  ///< number of its virtual cluster, counted as they came
    std::uint32_t gpus = 0;
    Nanos submit = 0, estimate = 0;
    bool running = false;
    Nanos since = 0;             ///< it runs
    Nanos served = 0;            ///< it ran before
    std::uint64_t turn = 0;      ///< when it was started, or entered the queue
    std::uint64_t stays_in = 0;  ///< the last pass that selected it

    Nanos had(Nanos now) const { return served + (running ? now - since : 0); }
  };
  using Jobs = std::vector<Track*>;
  struct Ranked {
    double key = 0;
    std::uint32_t place = 0;  ///< among those given
    Track* job = nullptr;
  };

  /// Who is to run; together at most `gpus`. Those that wait in order, the running ones anywhere.
  /// `jobs`: the running ones in the order in which they were started, then the waiting ones in
  /// the order of the queue.
  virtual Jobs select(const Jobs& jobs, std::uint64_t gpus, Nanos now) = 0;
  /// A job is over, after so many GPU-seconds.
  virtual void ended(double) {}
  virtual const char* reason() const = 0;

  /// Whether running jobs may be taken off: else nothing is selected while no GPU is free.
  virtual bool makes_room() const { return true; }

  /// The highest first, then who was submitted first, then as given: whoever still fits.
  static Jobs highest_first(std::vector<Ranked>& jobs, std::uint64_t gpus);
  /// Numbers of virtual clusters by name.
  const std::map<std::string, std::uint32_t>& pools() const { return pools_; }

 private:
  void enter(const JobInfo& job, Nanos now) override;
  void run(const JobInfo& job, Nanos since) override;
  void leave(const JobInfo& job) override;
  void clear() override;
  void dispatch(const Observation& seen, DecisionList& decisions) override;
  bool stop_is_news(Nanos now) const override { return now != taken_off_at_; }
  void line_up(Track& job);
  void step_out(const Track& job);
  void take_off(const Observation& seen, Track& job, DecisionList& decisions);
  void put_on(const Observation& seen, const Jobs& selected, DecisionList& decisions);

  std::map<JobId, Track> jobs_;
  Jobs running_, waiting_;  ///< by turn
  std::map<std::string, std::uint32_t> pools_;
  std::uint64_t running_gpus_ = 0, turns_ = 0, passes_ = 0;
  Nanos taken_off_at_ = -1;
};

}  // namespace orrery
