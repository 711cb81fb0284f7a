// Factory of the fabric of each membership epoch in which a rank takes part: over streams and
// shared memory on CPUs, over NCCL if the rank has a GPU. Used by the agent's step loop;
// single-threaded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "live/fabric/joining_fabric.hpp"
#include "live/rank/gpu_seat.hpp"
#include "live/transport/secrets.hpp"

namespace orrery::live {

/// Factory of the fabrics of one rank, one fabric per membership epoch.
class EpochFabrics {
 public:
  /// Stores the settings of all epochs. `address`: see AgentStart.data_address. `gpu`: null on the
  /// CPU. `apart`: connects the ranks as if each rank ran on a machine of its own. The secrets and
  /// `gpu` must outlive this object.
  EpochFabrics(std::string address, const Secrets& secrets, const GpuSeat* gpu, bool apart);

  /// Returns a fabric for `epoch`, with the newest certificates. The fabric already listens,
  /// because an epoch is agreed on once all members listen. Throws an environment Error if the
  /// fabric cannot listen, or if the GPU or NCCL fails.
  std::shared_ptr<JoiningFabric> make_fabric(std::uint64_t epoch) const;

 private:
  /// Returns the address at which to listen in `epoch`.
  std::string address(std::uint64_t epoch) const;

  const std::string address_;
  const Secrets& secrets_;
  const GpuSeat* const gpu_;
  const bool apart_;
};

}  // namespace orrery::live
