// Built-in transformer on a GPU, as the trainer's Device: forward, backward and update run there;
// the gradient is copied to host memory for the codecs, the whole-number sum and the fabrics.
// Starts with the CPU device's parameters, bit for bit; sums of products differ in their last bits.
// One thread.
#pragma once

#include <memory>
#include <string>

#include "live/cuda/orrery_cuda.h"
#include "live/training/device.hpp"

namespace orrery::live {

/// Returns the device; null, with the reason, if the module, its kernels, a driver or that device
/// is missing. `reason` has no meaning otherwise. Throws bad_input for a built-in model other than
/// the transformer, an environment Error if the GPU fails.
std::unique_ptr<Device> make_cuda_device(const std::string& module_path, int device,
                                         std::uint64_t seed, double learning_rate,
                                         const std::string& builtin, std::string& reason);
/// Returns a device on existing functions, of the module or of a test, which must outlive it and
/// must not lack those of the transformer. Throws an environment Error if the GPU fails, as the
/// device's methods do.
std::unique_ptr<Device> make_cuda_device(const OrreryCudaTable& module, int device,
                                         std::uint64_t seed, double learning_rate);

}  // namespace orrery::live
