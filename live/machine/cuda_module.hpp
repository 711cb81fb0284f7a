// Optional CUDA module (liborrery_cuda.so), loaded at run time, so that one build runs with and
// without GPUs and can report why no GPU is usable. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "live/cuda/orrery_cuda.h"

namespace orrery::live {

/// Properties of one CUDA device.
struct CudaDevice {
  std::string name;
  double memory_bytes = 0;
  std::uint32_t multiprocessors = 0;
  std::string compute_capability;  ///< Compute capability, for example "9.0".
  std::string pci_address;         ///< PCI address, for example "0000:17:00.0".
};

/// Result of a search for CUDA devices.
struct CudaProbe {
  bool module_loaded = false;
  /// Reason why no device is usable; empty if a device was found.
  std::string reason;
  std::string runtime_version, driver_version, nccl_version;  ///< Versions; empty if unknown.
  /// Number of devices.
  std::uint32_t devices = 0;
  std::vector<CudaDevice> list;
};

/// Returns the devices that the CUDA module of this build finds. Never throws for a missing module
/// or device.
CudaProbe probe_cuda();
/// Returns the devices that the CUDA module at `module_path` finds. Never throws for a missing
/// module or device.
CudaProbe probe_cuda(const std::string& module_path);

/// Returns the function table of the module, which stays valid; null, with `reason` set, if the
/// module does not exist, cannot be loaded, or is of another version. `reason` is unchanged
/// otherwise.
const OrreryCudaTable* load_cuda_table(const std::string& module_path, std::string& reason);
/// Returns the path of this build's CUDA module. The file is absent if the module was not built.
std::string cuda_module_path();

}  // namespace orrery::live
