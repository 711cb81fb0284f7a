// The small language model that live mode really trains: byte-level, the last `context` bytes are
// embedded and joined, one tanh layer, a 256-way softmax. Forward and backward are written out
// (Eigen does the matrix products); gradients are checked numerically in the tests, which is why
// the scalar is a template parameter: training uses float, the check double. Losses in nats.
// One thread per object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "traces/model.hpp"

namespace orrery::live {

/// A named slice of the flat parameter vector, column-major.
struct Tensor {
  const char* name;
  std::size_t offset;
  std::size_t rows, columns;
  std::size_t size() const { return rows * columns; }
};

/// The slices, in the order of their names.
std::span<const Tensor> model_tensors();

template <class T>
class LanguageModel {
 public:
  /// Parameters drawn from `rng`: equal generators give equal models.
  explicit LanguageModel(Rng rng);

  std::span<T> parameters() { return parameters_; }
  std::span<const T> parameters() const { return parameters_; }
  std::span<T> gradient() { return gradient_; }
  void zero_gradient();

  /// Forward and backward over `text`: every byte after the first `context` is predicted from the
  /// `context` bytes before it. Adds to the gradient of the summed loss; returns that sum.
  double accumulate(std::span<const std::uint8_t> text);
  /// The summed loss alone.
  double loss(std::span<const std::uint8_t> text) const;

 private:
  struct Activations;
  double forward(std::span<const std::uint8_t> text, Activations& out) const;

  std::vector<T> parameters_, gradient_;
};

extern template class LanguageModel<float>;
extern template class LanguageModel<double>;

/// Memory traffic of forward and backward over one sequence of `length` bytes, modelled: bytes.
double memory_traffic(std::size_t length);

/// Adam (Kingma and Ba 2015) with bias correction, decay rates 0.9 and 0.999.
class Adam {
 public:
  Adam(std::size_t size, double learning_rate);
  /// parameters -= step along gradient x scale.
  void update(std::span<float> parameters, std::span<const float> gradient, float scale);

 private:
  double learning_rate_;
  std::uint64_t steps_ = 0;
  std::vector<float> mean_, square_;
};

/// SHA-256 over the tensors by name: each name, a zero byte, its values as little-endian fp32.
std::string parameters_sha256(std::span<const float> parameters);

}  // namespace orrery::live
