// `builtin: language-model`, the smallest model that live mode trains: byte-level; the last
// `context` bytes are embedded and joined, followed by one tanh layer and a 256-way softmax.
// Forward and backward are written out (Eigen computes the matrix products). Also the optimizer and
// the hash of parameters. One thread for each object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "live/checkpoint/checksum.hpp"
#include "live/training/network.hpp"
#include "traces/workload/model.hpp"

namespace orrery::live {

/// Byte-level language model with one hidden layer.
template <class T>
class LanguageModel : public Network<T> {
 public:
  /// Draws the parameters from `rng`, with biases of 0.
  explicit LanguageModel(Rng rng);
  /// Runs as in Network; a sequence must be longer than BuiltinModel::context.
  double accumulate_gradient(const Batch& batch) override;
  double loss(const Batch& batch) const override;

 private:
  struct Activations;
  double forward(Activations& out) const;
};

extern template class LanguageModel<float>;
extern template class LanguageModel<double>;

/// Returns the modelled memory traffic of forward and backward over one sequence of `length` bytes,
/// in bytes. Throws bad_input for a built-in model that does not exist.
double memory_traffic(const std::string& builtin, std::uint32_t length);

/// Returns Adam's learning rate of step `step` (from 1), with the corrections for moments of 0:
/// rate * sqrt(1 - 0.999^step) / (1 - 0.9^step). Not a number for step 0.
float adam_rate(double learning_rate, std::uint64_t step);

/// Running checksums of parameters and of their moments.
struct StateChecksums {
  Checksum parameters, moments;
};

/// Adam optimizer (Kingma and Ba 2015) with bias correction, decay rates 0.9 and 0.999.
class Adam {
 public:
  /// Constructs an optimizer of `size` parameters with 0 updates and moments of 0.
  Adam(std::size_t size, double learning_rate);
  /// Sets the learning rate of later updates; moments and steps stay.
  void set_learning_rate(double learning_rate) { learning_rate_ = learning_rate; }
  /// Counts one more update, adds gradient x scale to the moments, and subtracts the step, with the
  /// learning rate x `rate_factor`, from the parameters. Throws an internal Error, without a
  /// change, unless both spans have this optimizer's size.
  void update(std::span<float> parameters, std::span<const float> gradient, float scale,
              double rate_factor = 1);
  /// Updates like the other update(), and lets `sums` follow: subtracts the values that it reads
  /// and adds those that it writes. `first`: index of the first parameter in the model. Damage of
  /// the state before or during the update stays in the difference between `sums` and the memory,
  /// except within about a microsecond between the reading of a value for its sum and for its
  /// update. Returns the checksum of the updated parameters.
  Checksum update(std::span<float> parameters, std::span<const float> gradient, float scale,
                  std::uint64_t first, StateChecksums& sums, double rate_factor = 1);
  /// Appends steps (8 bytes), means and squares as bytes of a fixed size; the learning rate is not
  /// among them.
  void append_state(std::string& bytes) const;
  /// Restores the result of append_state(); the learning rate stays. Throws an internal Error,
  /// without a change, for another size.
  void set_state(std::string_view bytes);
  /// Returns the number of updates.
  std::uint64_t steps() const { return steps_; }
  /// Returns the first moments by parameter; zeros before the first update. Valid as long as this
  /// object.
  std::span<const float> mean() const { return mean_; }
  /// Returns the second moments, as mean() the first ones.
  std::span<const float> square() const { return square_; }
  /// Restores steps and moments; the learning rate stays. Throws an internal Error, without a
  /// change, unless each moment has this optimizer's size.
  void set_state(std::uint64_t steps, std::span<const float> mean, std::span<const float> square);

 private:
  /// Updates the parameters `begin` to `end` - 1 by a step of size `rate`.
  void update_range(std::span<float> parameters, std::span<const float> gradient, float scale,
                    float rate, std::size_t begin, std::size_t end);

  double learning_rate_;
  std::uint64_t steps_ = 0;
  std::vector<float> mean_, square_;
};

/// Returns the SHA-256 over the tensors by name: each name, a zero byte, its values as
/// little-endian fp32.
std::string parameters_sha256(const Network<float>& network);

}  // namespace orrery::live
