// Fabric of one epoch of a live run: every rank opens a fabric, reports its address, and learns its
// rank number later. As Fabric: one thread, abort() from any.
#pragma once

#include <string>
#include <vector>

#include "live/fabric/fabric.hpp"

namespace orrery::live {

/// Fabric that is connected after its construction.
class JoiningFabric : public Fabric {
 public:
  /// Returns the address that the other ranks need, also before connect_ranks().
  virtual const std::string& address() const = 0;
  /// Connects as rank `rank` of `addresses.size()` ranks; `addresses` has the address of each rank.
  /// Call once, before any operation; rank() and ranks() are 0 before. Blocks until the next rank
  /// listens (gRPC) or all ranks have joined (NCCL), or abort() is called. Throws FabricBroken;
  /// throws an environment Error if this machine lacks the memory for the links or cannot write the
  /// file of the NCCL tuner.
  virtual void connect_ranks(std::uint32_t rank, const std::vector<std::string>& addresses) = 0;
  /// Limits the sending rate of this rank to `bytes_per_second`, as a slow NIC would; 0: unlimited.
  /// May be called from any thread. requirements.hpp excludes fabrics that cannot be slowed, which
  /// ignore the call.
  virtual void set_link_rate(double bytes_per_second) = 0;
};

}  // namespace orrery::live
