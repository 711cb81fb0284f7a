// Simulation of a rehearsed step under the cluster, the faults and the policies of a scenario
// (orrery rehearse --scenario). The scenario has no job, or a job that is a recorded program; the
// recording of the rehearsal takes its place. One thread.
#pragma once

#include <string>
#include <vector>

#include "core/schema/yaml_loader.hpp"
#include "topologies/topology.pb.h"
#include "traces/report.pb.h"

namespace orrery::cli {

/// Scenario of a rehearsal and the policies in place of its own.
struct RecordedRun {
  std::string file;                   ///< scenario (YAML)
  std::string cluster_text;           ///< cluster in place of the scenario's (YAML), or empty
  std::string gpu;                    ///< GPU model in place of the cluster's, or empty
  std::vector<std::string> policies;  ///< values of --policy

  /// Returns the cluster of the scenario, and the places of its keys below "cluster". Throws
  /// bad_input for a file that is no scenario, whose job is described, or whose job has keys that
  /// the rehearsal determines; a usage Error for an unknown policy.
  Topology cluster(SourceMap& places) const;

  /// Simulates the step that was recorded as `prefix` and returns the report. Throws as
  /// load_scenario() and run() do.
  Report simulate_recording(const std::string& prefix) const;
};

}  // namespace orrery::cli
