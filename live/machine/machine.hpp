// Hardware of this machine, read from the kernel's /sys: GPUs with their PCIe links and NUMA nodes,
// network cards and InfiniBand ports. NVLinks come from NVML, if NVML is installed. No function
// here needs CUDA. Reads only; thread-safe. Rates are bits per second as the kernel reports them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "live/machine/nvml.hpp"

namespace orrery::live {

/// Device on the PCIe bus. Values that the kernel does not report are absent.
struct PciDevice {
  std::string address;               ///< PCI address, for example "0000:17:00.0".
  std::optional<std::string> speed;  ///< Current speed of the link, for example "32.0 GT/s PCIe".
  std::optional<std::uint32_t> lanes;
  std::optional<int> numa_node;
};
/// GPU found on the PCIe bus.
struct Gpu {
  PciDevice pci;
  std::string vendor;  ///< Vendor, for example "NVIDIA".
};
/// Network card or InfiniBand device.
struct NetworkCard {
  std::string name;         ///< Name, for example "eth0" or "mlx5_0".
  bool infiniband = false;  ///< True for InfiniBand and RoCE cards, which support RDMA.
  bool up = false;
  /// Rate of all ports together.
  std::optional<double> bits_per_second;
  std::optional<PciDevice> pci;  ///< PCIe device; absent for a virtual interface.
};
/// Hardware of one machine.
struct Machine {
  std::vector<Gpu> gpus;
  std::vector<NetworkCard> cards;
  std::uint32_t numa_nodes = 0;
};

/// Returns the hardware listed below `sys` ("/sys"). Missing entries are not an error; never throws
/// for them.
Machine scan_machine(const std::string& sys);

/// NVLinks and driver measurements from NVML.
struct NvLinks {
  /// Reason why NVML reports nothing; empty if NVML works.
  std::string reason;
  std::string driver;                 ///< Version of the driver.
  std::vector<std::uint32_t> active;  ///< Number of active NVLinks, by GPU.
  std::vector<NvmlReading> readings;  ///< Driver measurements, by GPU.
};
/// Returns the NVLinks and the driver measurements that the NVML library `library` reports
/// ("libnvidia-ml.so.1"). Never throws for a missing library; `reason` is set then.
NvLinks probe_nvlinks(const std::string& library);

}  // namespace orrery::live
