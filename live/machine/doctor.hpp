// Body of `orrery doctor`: reports which features of Orrery work on this machine, which parts are
// missing and why, and the hardware found. Reads only; single-threaded.
#pragma once

#include <string>
#include <vector>

#include "live/machine/cuda_module.hpp"
#include "live/machine/machine.hpp"

namespace orrery::live {

/// Presence of one component that a feature needs.
struct Finding {
  std::string name;  ///< Name, for example "CUDA device".
  bool present = false;
  /// Description of the component found, or the reason why the component is absent.
  std::string detail;
  std::string needed;  ///< Features that do not work without the component.
};
/// Result of one examination of this machine.
struct Diagnosis {
  std::vector<Finding> findings;
  Machine machine;
  NvLinks nvlinks;
  CudaProbe cuda;

  /// Returns true if no component is missing.
  bool is_complete() const;
};

/// Examines this machine. `programs`: folder of the executables; `sys`: path of the kernel's tree
/// ("/sys").
Diagnosis diagnose(const std::string& programs, const std::string& sys);

/// Returns the diagnosis as text for a terminal.
std::string print_text(const Diagnosis& diagnosis);
/// Returns the diagnosis as JSON.
std::string print_json(const Diagnosis& diagnosis);

}  // namespace orrery::live
