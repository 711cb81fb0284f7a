// NVML, the driver's own measurements: utilisation, memory, power, temperature, clocks, errors,
// NVLinks. Loaded at run time by name; its interface is declared in nvml.cpp, because its header
// need not be there. A value that a GPU or driver does not give is absent, never 0. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace orrery::live {

constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

/// One look at one GPU.
struct NvmlReading {
  std::string name;
  std::optional<double> utilization;       ///< share of the time with a kernel running, 0..1
  std::optional<double> memory_bandwidth;  ///< share of the time with memory being moved, 0..1
  std::optional<double> memory_used;       ///< bytes
  std::optional<double> power;             ///< watts
  std::optional<double> energy;            ///< joules since the driver was loaded
  std::optional<double> temperature;       ///< degrees Celsius
  std::optional<double> sm_clock, memory_clock;          ///< hertz
  std::optional<std::uint64_t> uncorrected_ecc_errors;  ///< since the driver was loaded
  std::optional<std::uint64_t> xid;        ///< newest critical error since the library was opened
};

/// The reading under the names and in the units of NVIDIA's DCGM exporter, in the order of the
/// names; absent values are left out.
std::vector<std::pair<std::string, double>> dcgm_fields(const NvmlReading& reading);

class Nvml {
 public:
  /// Null with the reason: no driver, not an NVML, or one that does not start.
  static std::unique_ptr<Nvml> open(const std::string& library, std::string& reason);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::string driver_version() const;
  std::uint32_t gpus() const;
  NvmlReading read(std::uint32_t gpu);
  /// NVLinks of a GPU that are up.
  std::uint32_t links_up(std::uint32_t gpu) const;
  /// The GPU at a place of the PCI bus ("0000:17:00.0"): CUDA's numbers and NVML's may differ.
  std::optional<std::uint32_t> find(const std::string& pci_address) const;

 private:
  struct Functions;
  explicit Nvml(std::unique_ptr<Functions> functions);
  void* device(std::uint32_t gpu) const;
  void take_events();

  const std::unique_ptr<Functions> functions_;
  void* events_ = nullptr;             ///< where critical errors are announced
  std::map<void*, std::uint64_t> xid_;  ///< by device
};

}  // namespace orrery::live
