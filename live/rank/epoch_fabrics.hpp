// Makes the fabric of each epoch in which a rank takes part: over streams and shared memory on
// CPUs, over NCCL where the rank has a GPU. The agent's step loop asks; one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "live/fabric/joining_fabric.hpp"
#include "live/rank/gpu_seat.hpp"
#include "live/transport/secrets.hpp"

namespace orrery::live {

class EpochFabrics {
 public:
  /// `address`: see AgentStart.data_address. `gpu`: null on the CPU. `apart`: as if each rank had a
  /// machine of its own. The secrets and the seat outlive this.
  EpochFabrics(std::string address, const Secrets& secrets, const GpuSeat* gpu, bool apart);

  /// It listens when this returns, since an epoch is agreed on when all listen.
  std::shared_ptr<JoiningFabric> make(std::uint64_t epoch) const;

 private:
  std::string address(std::uint64_t epoch) const;

  const std::string address_;
  const Secrets& secrets_;
  const GpuSeat* const gpu_;
  const bool apart_;
};

}  // namespace orrery::live
