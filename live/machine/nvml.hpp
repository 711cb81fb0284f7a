// Bindings to NVML, the driver's measurements of GPUs: utilisation, memory, power, temperature,
// clocks, errors, NVLinks. The library is loaded at run time by name; its interface is declared in
// nvml.cpp, because NVML's header may be absent. A value that a GPU or driver does not report is
// absent, never 0. Single-threaded.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace orrery::live {

/// Name of the NVML library.
constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

/// Measurements of one GPU at one instant.
struct NvmlReading {
  std::string name;
  std::optional<double> utilization;             ///< Share of the time with a kernel running, 0..1.
  std::optional<double> memory_bandwidth;        ///< Share of the time with memory transfers, 0..1.
  std::optional<double> memory_used;             ///< Used memory in bytes.
  std::optional<double> power;                   ///< Power in watts.
  std::optional<double> energy;                  ///< Energy in joules since the driver was loaded.
  std::optional<double> temperature;             ///< Temperature in degrees Celsius.
  std::optional<double> sm_clock, memory_clock;  ///< Clocks in hertz.
  std::optional<std::uint64_t> uncorrected_ecc_errors;  ///< Errors since the driver was loaded.
  std::optional<std::uint64_t> xid;  ///< Newest critical error since the library was opened.
};

/// Returns the reading under the names and in the units of NVIDIA's DCGM exporter, sorted by name.
/// Absent values are omitted. For example, a power of 300 W becomes {"DCGM_FI_DEV_POWER_USAGE",
/// 300}.
std::vector<std::pair<std::string, double>> dcgm_fields(const NvmlReading& reading);

/// Open NVML library. Owns the event set that collects critical errors.
class Nvml {
 public:
  /// Returns the opened library; null, with `reason` set, if there is no driver, the library is not
  /// NVML, or NVML does not start. `reason` is empty otherwise. Critical errors count from now on.
  static std::unique_ptr<Nvml> open(const std::string& library, std::string& reason);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// Returns the driver's version; empty if unknown.
  std::string driver_version() const;
  /// Returns the number of GPUs that the driver counts; 0 if unknown.
  std::uint32_t gpus() const;
  /// Returns the current measurements of `gpu`; all are absent for an unknown GPU. Collects the
  /// critical errors of all GPUs that arrived since the last call; the newest one of `gpu` stays in
  /// all later readings.
  NvmlReading read(std::uint32_t gpu);
  /// Returns the number of active NVLinks of `gpu`; 0 if unknown.
  std::uint32_t links_up(std::uint32_t gpu) const;
  /// Returns NVML's index of the GPU at `pci_address` ("0000:17:00.0"), since CUDA's and NVML's
  /// indices may differ. Returns nothing if no GPU is found.
  std::optional<std::uint32_t> find(const std::string& pci_address) const;

 private:
  struct Functions;
  /// Starts the collection of critical errors.
  explicit Nvml(std::unique_ptr<Functions> functions);
  /// Returns NVML's handle of `gpu`; null if the handle is unavailable.
  void* device(std::uint32_t gpu) const;
  /// Records all critical errors that arrived since the last call.
  void take_events();

  const std::unique_ptr<Functions> functions_;
  void* events_ = nullptr;  ///< Event set that receives critical errors; null if unsupported.
  std::map<void*, std::uint64_t> xid_;  ///< Newest critical error, by device handle.
};

}  // namespace orrery::live
