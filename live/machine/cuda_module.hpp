// The optional CUDA module (liborrery_cuda.so), loaded at run time: one build runs with and
// without GPUs, and says why it has none. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "live/cuda/orrery_cuda.h"

namespace orrery::live {

struct CudaDevice {
  std::string name;
  double memory_bytes = 0;
  std::uint32_t multiprocessors = 0;
  std::string compute_capability;  ///< "9.0"
  std::string pci_address;         ///< "0000:17:00.0"
};

/// What was found. `reason` says why there is no device; empty if there is one.
struct CudaProbe {
  bool module_loaded = false;
  std::string reason;
  std::string runtime_version, driver_version, nccl_version;  ///< empty: not known
  std::uint32_t devices = 0;
  std::vector<CudaDevice> list;
};

/// Loads the module from beside the libraries of this build and asks it. Never throws for what is
/// missing.
CudaProbe probe_cuda();
CudaProbe probe_cuda(const std::string& module_path);

/// The module's functions; null with the reason where it cannot be had.
const OrreryCudaTable* load_cuda_table(const std::string& module_path, std::string& reason);
/// Where the module of this build stands, if it was built.
std::string cuda_module_path();

}  // namespace orrery::live
