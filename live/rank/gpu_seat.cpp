#include "live/rank/gpu_seat.hpp"

#include <stdlib.h>

#include <filesystem>

#include <fmt/format.h>

#include "core/error.hpp"
#include "live/machine/cuda_module.hpp"
#include "live/training/cuda_device.hpp"

namespace orrery::live {
namespace {

constexpr std::chrono::milliseconds kReadEvery{100};
constexpr int kSharedCtas = 4;  ///< Thread blocks of NCCL for a rank that shares its GPU.

/// Returns the path of the tuner plugin: beside the CUDA module, built wherever live mode is built.
std::string tuner_path() {
  const std::filesystem::path module(cuda_module_path());
  return (module.parent_path() / "liborrery_nccl_tuner.so").string();
}

}  // namespace

GpuShare share_of_gpus(std::uint32_t rank, std::uint32_t ranks, std::uint32_t gpus,
                       const std::string& tuner, const std::string& table_file) {
  ensure(gpus > 0, "expected at least one GPU for a rank on a GPU");
  GpuShare share{.device = rank % gpus, .shared = ranks > gpus, .environment = {}};
  share.environment.emplace_back("NCCL_TUNER_PLUGIN", tuner);
  share.environment.emplace_back("ORRERY_NCCL_TABLE", table_file);
  if (share.shared) {
    share.environment.emplace_back("NCCL_HOSTID", fmt::format("orrery-rank-{}", rank));
    share.environment.emplace_back("NCCL_SOCKET_IFNAME", "lo");
  }
  return share;
}

DeviceReading to_wire(const NvmlReading& reading) {
  DeviceReading out;
  if (reading.utilization) out.set_utilization(*reading.utilization);
  if (reading.memory_bandwidth) out.set_memory_bandwidth(*reading.memory_bandwidth);
  if (reading.memory_used) out.set_memory_used(*reading.memory_used);
  if (reading.power) out.set_power(*reading.power);
  return out;
}

GpuSeat::GpuSeat(std::uint32_t rank, std::uint32_t ranks, std::uint32_t gpus,
                 const std::string& folder)
    : table_file_(fmt::format("{}/collectives-{}", folder, rank)),
      share_(share_of_gpus(rank, ranks, gpus, tuner_path(), table_file_)) {
  for (const auto& [name, value] : share_.environment) setenv(name.c_str(), value.c_str(), 0);
  std::string reason;
  module_ = find_nccl(cuda_module_path(), reason);
  if (!module_) throw Error(ErrorKind::environment, reason);
  const CudaProbe probe = probe_cuda();
  nvml_ = Nvml::open(kNvmlLibrary, reason);
  if (!nvml_ || share_.device >= probe.list.size()) return;
  // The driver counts all GPUs, CUDA only the visible ones.
  nvml_index_ = nvml_->find(probe.list[share_.device].pci_address).value_or(share_.device);
}

std::unique_ptr<Device> GpuSeat::make_device(const Scenario& scenario) const {
  std::string reason;
  auto device =
      make_cuda_device(cuda_module_path(), static_cast<int>(share_.device), scenario.run().seed(),
                       scenario.live().learning_rate(), scenario.job().model().builtin(), reason);
  if (!device) throw Error(ErrorKind::environment, reason);
  return device;
}

std::shared_ptr<NcclFabric> GpuSeat::make_fabric() const {
  return std::make_shared<NcclFabric>(*module_,
                                      NcclOptions{.device = static_cast<int>(share_.device),
                                                  .max_ctas = share_.shared ? kSharedCtas : 0,
                                                  .table_file = table_file_});
}

const DeviceReading& GpuSeat::read() {
  const auto now = std::chrono::steady_clock::now();
  if (nvml_ && now - read_at_ >= kReadEvery) {
    reading_ = to_wire(nvml_->read(nvml_index_));
    read_at_ = now;
  }
  return reading_;
}

}  // namespace orrery::live
