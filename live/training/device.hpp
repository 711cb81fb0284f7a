// Device of a trainer: forward and backward passes of micro-batches, and the optimizer. The
// trainer's loop is the same over any device, so a paced CPU step and a GPU step leave the same
// records. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "live/checkpoint/checksum.hpp"
#include "live/checkpoint/format.hpp"
#include "live/training/network.hpp"

namespace orrery::live {

/// Error: the training state in this process's memory is not the one that the last update or
/// transfer has written.
class StateDamaged : public Error {
 public:
  StateDamaged();
};

/// Parameters, gradient and optimizer state of a model on one device. Methods that use a GPU throw
/// an environment Error if the GPU fails.
class Device {
 public:
  virtual ~Device() = default;
  /// Sets the gradient to zero, also in the span of gradient() after its next call.
  virtual void zero_gradient() = 0;
  /// Runs forward and backward of one micro-batch, adds to the gradient and to gather_count().
  /// Returns the summed loss in nats. Throws as Network::accumulate_gradient().
  virtual double accumulate_gradient(const Batch& batch) = 0;
  /// Returns the traffic of the embedding table since the construction; zero_gradient() does not
  /// reset the count.
  virtual GatherCount gather_count() const = 0;
  /// Returns the summed gradient, which the fabric reduces in place. Valid until the next call of
  /// zero_gradient(), accumulate_gradient() or update(), which reads the values written to the
  /// span; values written afterwards are lost.
  virtual std::span<float> gradient() = 0;
  /// Returns the slices of the gradient, in order, without gaps.
  virtual std::span<const Tensor> tensors() const = 0;
  /// Returns the parameters, which may be changed in place. Throws an environment Error if they are
  /// not in host memory.
  virtual std::span<float> parameters();
  /// Applies one optimizer step along gradient x scale to all parameters, with the learning rate x
  /// `rate_factor`; the gradient stays. Does not check that the values are finite.
  virtual void update(float scale, double rate_factor) = 0;
  /// Returns the SHA-256 of the parameters as hex digits.
  virtual std::string parameters_sha256() const = 0;
  /// Returns parameters and optimizer state, which a replacement needs to continue: the parameters,
  /// the number of updates (8 bytes), the means, the squares.
  virtual std::string state() const = 0;
  /// Sets parameters and optimizer state to a result of state(); the gradient stays. Throws an
  /// internal Error for a state of another model; the parameters may have changed by then.
  virtual void set_state(std::string_view state) = 0;
  /// Returns the checksum of parameters and optimizer state that the construction, update() and
  /// set_state() have left; nothing if the device keeps none. Reads no state. Writes to the span of
  /// parameters() are not followed.
  virtual std::optional<Checksum> state_checksum() const { return {}; }
  /// Returns true if the state in memory still has state_checksum(), for which the whole state is
  /// read, or if there is no checksum.
  virtual bool is_state_intact() const { return true; }
  /// Returns a copy of the state of the parameters in `range`, empty for an empty range, with the
  /// number of updates. Throws an internal Error for a range beyond the model.
  virtual TrainingState part(const Range& range) const;
  /// Sets the state of all parameters; throws like set_state(). Only the size of the whole is
  /// checked, not that of each part.
  virtual void restore_state(const TrainingState& whole);
};

/// Returns a built-in model on this thread; equal seeds give equal parameters. Throws bad_input for
/// an unknown name.
std::unique_ptr<Device> make_cpu_device(std::uint64_t seed, double learning_rate,
                                        const std::string& builtin = "language-model");

}  // namespace orrery::live
