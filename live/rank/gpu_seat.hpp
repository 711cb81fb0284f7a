// GPU of an agent: the device number, the device, the fabrics and the driver's measurements, which
// replace the CPU device and the gRPC fabric. Ranks are assigned to the machine's GPUs round-robin;
// ranks share GPUs if the run has more ranks than GPUs (NCCL does not support sharing, but allows
// it if each rank claims to be a separate node).
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

/// Use of one of `gpus` GPUs by rank `rank` of `ranks`. For example, rank 5 of 8 on 4 GPUs uses
/// device 1 and shares it.
struct GpuShare {
  std::uint32_t device = 0;
  bool shared = false;
  /// Environment variables for NCCL and its plugins, as name and value.
  std::vector<std::pair<std::string, std::string>> environment;
};
/// Returns the share of a rank. `tuner`: path of the tuner plugin; `table_file`: path of the file
/// that the plugin reads. Throws an internal Error if `gpus` is 0.
GpuShare share_of_gpus(std::uint32_t rank, std::uint32_t ranks, std::uint32_t gpus,
                       const std::string& tuner, const std::string& table_file);

/// GPU of one rank's process. Single-threaded, except that read() belongs to one other thread.
class GpuSeat {
 public:
  /// Selects the GPU and sets the environment variables that the user has not set. Must be
  /// constructed once per process, before any other use of NCCL. `folder`: folder for the file of
  /// the tuner plugin. Throws an environment Error if this machine lacks the CUDA module, a GPU or
  /// NCCL, and an internal Error if `gpus` is 0; NVML may be missing.
  GpuSeat(std::uint32_t rank, std::uint32_t ranks, std::uint32_t gpus, const std::string& folder);

  /// Returns the training device on this GPU. Throws an environment Error if the device cannot be
  /// opened.
  std::unique_ptr<Device> make_device(const Scenario& scenario) const;
  /// Returns a fabric for one epoch. Throws an environment Error if the device or NCCL fails.
  std::shared_ptr<NcclFabric> make_fabric() const;
  /// Returns the driver's measurements, at most 100 ms old; empty without NVML. The reference is
  /// valid as long as this object; the next call may change the values.
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

/// Returns the measurements of `reading` that policies see; missing ones stay unset.
DeviceReading to_wire(const NvmlReading& reading);

}  // namespace orrery::live
