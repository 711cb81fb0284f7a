// `orrery doctor`: what of Orrery works on this machine, what is missing and why, and the machine
// as it was found. Reads only. One thread.
#pragma once

#include <string>
#include <vector>

#include "live/machine/cuda_module.hpp"
#include "live/machine/machine.hpp"

namespace orrery::live {

/// One thing that a feature needs.
struct Finding {
  std::string name;    ///< "CUDA device"
  bool present = false;
  std::string detail;  ///< what was found, or why it is not there
  std::string needed;  ///< what does not work without it
};
struct Diagnosis {
  std::vector<Finding> findings;
  Machine machine;
  NvLinks nvlinks;
  CudaProbe cuda;

  /// Nothing is missing.
  bool complete() const;
};

/// `programs`: folder of the executables; `sys`: where the kernel's tree stands ("/sys").
Diagnosis diagnose(const std::string& programs, const std::string& sys);

std::string print_text(const Diagnosis& diagnosis);
std::string print_json(const Diagnosis& diagnosis);

}  // namespace orrery::live
