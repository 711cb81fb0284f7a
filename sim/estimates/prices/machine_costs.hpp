// Measured costs that replace the catalogue's prices. Used by the stepper; created by the
// simulator's backend. Plain data; thread-safe. Seconds, bytes per second.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/units.hpp"
#include "sim/estimates/prices/cost_model.hpp"
#include "sim/estimates/prices/gradient_codes.hpp"
#include "topologies/machine.pb.h"

namespace orrery::estimates {

/// Costs of a measured machine (topologies/machine.proto) for pricing a training step. An absent
/// value means the catalogue's value.
struct MachineCosts {
  /// Profile of the kernels, the machine's software included.
  std::optional<CostProfile> kernels = {};
  std::optional<Seconds> update = {};  ///< update time of one parameter
  std::optional<CodecSpeeds> codecs = {};
  /// Kernels of one node that replace the catalogue's prices of its GPU; null: none.
  std::shared_ptr<const MeasuredKernels> node = {};
  Seconds control = {};    ///< time added to every step
  double link_limit = 0;   ///< upper limit of every link's rate; 0: no limit
  double plain_bytes = 0;  ///< bytes of an uncoded gradient value; 0: the job's
};

/// Returns the costs of a machine with `ranks` ranks; no values for a profile without links.
/// `control` is that of the nearest measured number of ranks. Does not set node, link_limit
/// and plain_bytes. Throws an internal Error for an unknown codec.
MachineCosts machine_costs(const MachineProfile& machine, std::uint32_t ranks);

}  // namespace orrery::estimates
