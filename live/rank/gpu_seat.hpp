// What an agent whose rank trains on a GPU has in place of CPU and gRPC fabric: which GPU, its
// device and fabrics, and the driver's measurements of it. Ranks go round the machine's GPUs; where
// there are more ranks than GPUs they share them (which NCCL does not support, but allows where
// each says that it is a node of its own). One thread, but read() is another's.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "live/control.pb.h"
#include "live/cuda/orrery_cuda.h"
#include "live/fabric/nccl_fabric.hpp"
#include "live/machine/nvml.hpp"
#include "live/training/device.hpp"
#include "traces/scenario.pb.h"

namespace orrery::live {

/// How rank `rank` of `ranks` uses one of `gpus` GPUs.
struct GpuShare {
  std::uint32_t device = 0;
  bool shared = false;
  /// What NCCL and its plugins are told by environment, name and value.
  std::vector<std::pair<std::string, std::string>> environment;
};
/// `tuner`: the tuner plugin; `table_file`: what it reads.
GpuShare share_of_gpus(std::uint32_t rank, std::uint32_t ranks, std::uint32_t gpus,
                       const std::string& tuner, const std::string& table_file);

class GpuSeat {
 public:
  /// Once a process, before it does anything else with NCCL: sets the environment, where the user
  /// has not. `folder`: where the file of the tuner plugin may lie. Throws an environment Error for
  /// what this machine lacks.
  GpuSeat(std::uint32_t rank, std::uint32_t ranks, std::uint32_t gpus, const std::string& folder);

  std::unique_ptr<Device> make_device(const Scenario& scenario) const;
  /// For one epoch.
  std::shared_ptr<NcclFabric> make_fabric() const;
  /// The driver's newest measurements; nothing without NVML. At most ten times a second anew.
  const DeviceReading& read();

 private:
  std::string table_file_;
  GpuShare share_;
  const OrreryCudaTable* module_ = nullptr;
  std::unique_ptr<Nvml> nvml_;
  std::uint32_t nvml_index_ = 0;
  DeviceReading reading_;
  std::chrono::steady_clock::time_point read_at_{};
};

/// What of a reading policies see.
DeviceReading to_wire(const NvmlReading& reading);

}  // namespace orrery::live
