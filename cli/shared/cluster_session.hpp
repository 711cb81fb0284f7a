// Common part of `orrery cluster slurm` and `orrery cluster kubernetes`: options, the policy's
// decisions in the cluster's names, the log and the final figures. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "cli/shared/operator.hpp"
#include "cli/shared/slurm_session.hpp"
#include "live/queue/queue_cluster.hpp"
#include "policies/record/recorder.hpp"

namespace orrery::cli {

/// Words of one kind of cluster.
struct ClusterWords {
  const char* scheduler;  ///< name in the log and in the JSON result: "slurm"
  const char* shown;      ///< name in texts: "Slurm"
  const char* job;        ///< word for a job: "job"
  const char* stop;       ///< word for a preemption: "requeue"
  const char* waits;      ///< help of --patience
};

/// Options that all kinds of clusters have. Durations are seconds.
struct ClusterOptions {
  std::vector<std::string> changes;
  std::string policy, placement = "per-node", record;
  OperatorOptions operation;
  double every_s = 1, for_s = 0;
  std::int64_t patience_s = 60;
  std::uint32_t per_minute = 0;
  bool json = false;

  /// Declares the options; this object must outlive the parsing of the command line.
  void add(CLI::App& command, const ClusterWords& words);
};

/// One run of a policy on a cluster. Handles signals while it exists; not more than one at a time.
class ClusterSession {
 public:
  /// Constructs a session; both references must outlive it. Throws a usage error for an unknown
  /// policy and for options that contradict each other.
  ClusterSession(const ClusterOptions& options, const ClusterWords& words);

  /// Returns true if the mode is not shadow.
  bool acts() const;
  /// Returns the options of the cluster; they refer to this session.
  live::QueueCluster::Options cluster_options();
  /// Runs the policy on the cluster until the run ends, writes the log and prints the figures.
  /// `nodes_per_rack`: see describe_nodes(). Returns the exit code.
  int run(live::QueueCluster& cluster, std::uint32_t nodes_per_rack);

 private:
  bool is_halted() const;
  JobReplay replay_of(const live::QueueCluster& cluster, std::uint32_t nodes_per_rack) const;

  const ClusterOptions& options_;
  const ClusterWords& words_;
  const StopSignals signals_;
  const std::unique_ptr<Operator> operator_;
  Recorder* recorder_ = nullptr;  ///< valid during run()
};

}  // namespace orrery::cli
