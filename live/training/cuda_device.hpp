// The built-in transformer on a GPU, as the trainer's Device: forward, backward and update there,
// the gradient brought to host memory where the codecs, the whole-number sum and the fabrics read
// it. Starts with the CPU device's parameters, bit for bit; sums of products differ in their last
// bits. One thread.
#pragma once

#include <memory>
#include <string>

#include "live/cuda/orrery_cuda.h"
#include "live/training/device.hpp"

namespace orrery::live {

/// Null, with the reason, without the module, its kernels, a driver or that device. Throws
/// bad_input for a built-in model that only CPUs train.
std::unique_ptr<Device> make_cuda_device(const std::string& module_path, int device,
                                         std::uint64_t seed, double learning_rate,
                                         const std::string& builtin, std::string& reason);
/// The same on functions that are there already: of the module, or of a test. They outlive it.
std::unique_ptr<Device> make_cuda_device(const OrreryCudaTable& module, int device,
                                         std::uint64_t seed, double learning_rate);

}  // namespace orrery::live
