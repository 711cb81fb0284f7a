// What computes: forward and backward of micro-batches, and the optimizer. The trainer's loop is
// the same over any device, so a paced CPU step and a GPU step leave the same records. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace orrery::live {

class Device {
 public:
  virtual ~Device() = default;
  virtual void zero_gradient() = 0;
  /// Forward and backward of one sequence; adds to the gradient. Returns the summed loss, nats.
  virtual double accumulate(std::span<const std::uint8_t> sequence) = 0;
  /// The summed gradient, as the fabric reduces it in place.
  virtual std::span<float> gradient() = 0;
  /// One optimizer step along gradient x scale.
  virtual void update(float scale) = 0;
  virtual std::string parameters_sha256() const = 0;
};

/// The built-in model on this thread; equal seeds give equal parameters.
std::unique_ptr<Device> make_cpu_device(std::uint64_t seed, double learning_rate);

}  // namespace orrery::live
