// Conditions that determine a simulated step of a training job, apart from noise. A plain value.
#pragma once

#include <cstdint>
#include <vector>

#include "policies/seam/job.hpp"
#include "sim/estimates/plan/hardware_state.hpp"
#include "traces/workload/collective.hpp"
#include "traces/workload/gradient_codec.hpp"

namespace orrery::sim {

/// Conditions of a step. For example, equal conditions of two steps let the second take the
/// simulated step of the first.
struct StepConditions {
  estimates::HardwareState state;
  std::vector<std::uint32_t> shares;  ///< shares of the working replicas
  CollectiveTable collectives;
  std::vector<CodecRule> codecs;
  Prefetch input;
  Nanos read = 0;  ///< time of one read from the shared storage; 0: no such reads
  bool write_ends = false;  ///< a checkpoint in flight ends before the step's data are read
  std::uint64_t company = 0;  ///< group of Contention
  friend bool operator==(const StepConditions&, const StepConditions&) = default;
  /// Passes all members to a StateWriter or StateReader.
  template <class Archive>
  friend void fields(Archive& archive, StepConditions& of) {
    archive(of.state.slow, of.state.link_slow, of.state.down, of.state.clock, of.shares,
            of.collectives, of.codecs, of.input, of.read, of.write_ends, of.company);
  }
};

}  // namespace orrery::sim
