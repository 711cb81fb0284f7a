// What computes: forward and backward of micro-batches, and the optimizer. The trainer's loop is
// the same over any device, so a paced CPU step and a GPU step leave the same records. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "live/checkpoint/format.hpp"
#include "live/training/network.hpp"

namespace orrery::live {

class Device {
 public:
  virtual ~Device() = default;
  virtual void zero_gradient() = 0;
  /// Forward and backward of one micro-batch; adds to the gradient. Returns the summed loss, nats.
  virtual double accumulate(const Batch& batch) = 0;
  /// Traffic of the embedding table so far.
  virtual GatherCount gathered() const = 0;
  /// The summed gradient, as the fabric reduces it in place.
  virtual std::span<float> gradient() = 0;
  /// The slices of the gradient, in order, without gaps.
  virtual std::span<const Tensor> tensors() const = 0;
  /// The parameters, to be changed in place. Throws an environment Error where they are not in
  /// host memory.
  virtual std::span<float> parameters();
  /// One optimizer step along gradient x scale.
  virtual void update(float scale) = 0;
  virtual std::string parameters_sha256() const = 0;
  /// Parameters and optimizer state: what a replacement needs to go on. The parameters, how many
  /// updates there were (8 bytes), the means, the squares.
  virtual std::string state() const = 0;
  /// Throws an internal Error for a state of another model.
  virtual void set_state(std::string_view state) = 0;
  /// A copy of what belongs to some of the parameters.
  virtual TrainingState part(const Range& range) const;
  /// Like set_state().
  virtual void restore(const TrainingState& whole);
};

/// A built-in model on this thread; equal seeds give equal parameters. Throws bad_input for a name
/// that is none.
std::unique_ptr<Device> make_cpu_device(std::uint64_t seed, double learning_rate,
                                        const std::string& builtin = "language-model");

}  // namespace orrery::live
