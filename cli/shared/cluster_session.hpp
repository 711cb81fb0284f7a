// Common part of `orrery cluster slurm` and `orrery cluster kubernetes`: options, the policy's
// decisions in the cluster's names, the status and the orders of operators, the log and the final
// figures. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "cli/shared/choice_option.hpp"
#include "cli/shared/cluster_status.hpp"
#include "cli/shared/operator.hpp"
#include "cli/shared/slurm_session.hpp"
#include "live/queue/queue_cluster.hpp"
#include "policies/handover/hand_over.hpp"
#include "policies/record/recorder.hpp"
#include "traces/scenario.pb.h"
#include "traces/trace.pb.h"

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
  std::string policy, placement = "per-node", record, metrics;
  ChoiceOptions choice;
  OperatorOptions operation;
  double every_s = 1, for_s = 0;
  std::int64_t patience_s = 60;
  std::int64_t lease_s = 0;
  std::uint32_t per_minute = 0;
  bool json = false;

  /// Declares the options except --lease; this object must outlive the parsing of the command line.
  void add(CLI::App& command, const ClusterWords& words);
  /// Declares --lease with this help: whole seconds up to `most_s`, or a time with a unit. The
  /// default is the present value.
  void add_lease(CLI::App& command, const std::string& help, std::int64_t most_s);
};

/// One run of a policy on a cluster, which `orrery runs` lists. Handles signals while it exists. At
/// most one session may exist.
class ClusterSession {
 public:
  /// Constructs a session; both references must outlive it. Throws a usage error for an unknown
  /// policy and for options that contradict each other, and as ClusterStatus.
  ClusterSession(const ClusterOptions& options, const ClusterWords& words);

  /// Returns true if the mode is not shadow.
  bool acts() const { return mode_ != HandOverMode::shadow; }
  /// Returns the options of the cluster; they refer to this session.
  live::QueueCluster::Options cluster_options();
  /// Runs the policy on the cluster until the run ends, writes the log and prints the figures.
  /// `nodes_per_rack`: see describe_nodes(). Returns the exit code.
  int run(live::QueueCluster& cluster, std::uint32_t nodes_per_rack);

 private:
  class Approvals;
  bool is_halted() const;
  bool is_to_end();
  void report(const std::string& text);
  std::string objection(const ParameterSet& set) const;
  std::vector<ParameterSet> drain_parameters();
  std::string describe_decision(const Decision& decision) const;
  void show_decision(const Decision& decision, Nanos now);
  void show_event(const Event& event);
  void show_switch(const sim::PolicySwitch& made);
  ClusterFigures figures() const;
  LogHeader header_of(std::uint32_t nodes_per_rack) const;
  void print_counts(const HandOverReport& decisions) const;

  const ClusterOptions& options_;
  const ClusterWords& words_;
  HandOverMode mode_;
  std::string active_;  ///< policy that decides now
  const StopSignals signals_;
  const std::unique_ptr<Operator> operator_;
  ClusterStatus status_;
  // Valid during run():
  live::QueueCluster* cluster_ = nullptr;
  HandOver* hand_over_ = nullptr;
  Recorder* recorder_ = nullptr;
  Scenario settable_;  ///< policies whose parameters an operator can set
};

}  // namespace orrery::cli
