// What this machine has, read from the kernel's /sys: GPUs with their PCIe links and NUMA nodes,
// network cards and InfiniBand ports; NVLinks from NVML, which is loaded if it is there. Nothing
// here needs CUDA. Pure reads, thread-safe. Rates in bits per second as the kernel states them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "live/machine/nvml.hpp"

namespace orrery::live {

/// A device on the PCIe bus. Values that the kernel does not state are absent.
struct PciDevice {
  std::string address;                   ///< "0000:17:00.0"
  std::optional<std::string> speed;      ///< of the link now: "32.0 GT/s PCIe"
  std::optional<std::uint32_t> lanes;
  std::optional<int> numa_node;
};
struct Gpu {
  PciDevice pci;
  std::string vendor;  ///< "NVIDIA"
};
struct NetworkCard {
  std::string name;                      ///< "eth0", "mlx5_0"
  bool infiniband = false;               ///< or RoCE: it has RDMA
  bool up = false;
  std::optional<double> bits_per_second;
  std::optional<PciDevice> pci;          ///< absent: no hardware behind it
};
struct Machine {
  std::vector<Gpu> gpus;
  std::vector<NetworkCard> cards;
  std::uint32_t numa_nodes = 0;
};

/// Reads the tree below `sys` ("/sys"). What is not there is not found; never throws for it.
Machine scan_machine(const std::string& sys);

/// What NVML says of the NVLinks; `reason` says why it says nothing.
struct NvLinks {
  std::string reason;
  std::string driver;                   ///< version
  std::vector<std::uint32_t> active;    ///< links that are up, by GPU
  std::vector<NvmlReading> readings;    ///< what the driver measures, by GPU
};
/// `library`: "libnvidia-ml.so.1".
NvLinks probe_nvlinks(const std::string& library);

}  // namespace orrery::live
