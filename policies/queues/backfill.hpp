// Common part of both backfill policies: the waiting jobs in order of submission and the expected
// ends of the running jobs. Base of easy and conservative. On a cluster with several kinds of GPUs
// each kind has its free GPUs and its ends, and a job has its reservation on one kind. One thread.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "policies/queues/expected_ends.hpp"
#include "policies/queues/waiting_line.hpp"

namespace orrery {

/// Queue policy with expected ends of running jobs.
class BackfillPolicy : public WaitingLine {
 public:
  /// Returns the needs of queue policies and `gpu_kinds`.
  Needs needs() const override;
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;

 protected:
  void enter_queue(const JobInfo& job, Nanos now) override;
  void run(const JobInfo& job, Nanos since) override;
  void remove_job(const JobInfo& job) override;
  void clear() override;

  /// Starts a job as WaitingLine::begin() does, and records its end by its estimate.
  void begin_at(Nanos now, const JobSpec& job, GpuRuns gpus, const char* why,
                DecisionList& decisions);
  /// Returns the expected ends of the running jobs.
  ExpectedEnds& ends() { return ends_; }
  /// Returns the GPUs for a job on one kind of free_kinds(), otherwise as place_job().
  std::optional<GpuRuns> place_on_kind(const JobSpec& job, std::size_t kind);
  /// Returns the kind of the GPUs of a job that runs, or that begin_at() has started in this pass.
  std::size_t kind_of(const Observation& seen, JobId job) const;
  /// Returns the largest number of free GPUs of a kind. Only for clusters with several kinds.
  std::uint32_t most_free_of_a_kind() const;
  /// Removes the jobs that begin_at() has started in this pass from the line.
  void end_backfill_pass();

 private:
  ExpectedEnds ends_;
  std::vector<std::string> kind_names_;   ///< names in the order of free_kinds()
  std::map<JobId, std::size_t> started_;  ///< kinds of the jobs that this pass has started
};

}  // namespace orrery
