// What a measured machine (topologies/machine.proto) puts in the place of the catalogue's prices
// when a training step is priced. Made by the simulator's backend, used by the stepper. Plain data;
// thread-safe. Seconds, bytes per second.
#pragma once

#include <cstdint>
#include <optional>

#include "core/units.hpp"
#include "sim/estimates/prices/cost_model.hpp"
#include "sim/estimates/prices/gradient_codes.hpp"
#include "topologies/machine.pb.h"

namespace orrery::estimates {

/// Absent values: the catalogue's.
struct MachineCosts {
  std::optional<CostProfile> kernels = {};  ///< the machine's software is in it
  std::optional<Seconds> update = {};       ///< of one parameter
  std::optional<CodecSpeeds> codecs = {};
  Seconds control = {};    ///< added to every step
  double link_limit = 0;   ///< no link passes on more; 0: none
  double plain_bytes = 0;  ///< of a gradient value without a code; 0: the job's
};

/// Of `ranks` ranks there; nothing for an empty profile.
MachineCosts machine_costs(const MachineProfile& machine, std::uint32_t ranks);

}  // namespace orrery::estimates
