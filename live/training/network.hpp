// What every built-in model is to its device: one flat vector of parameters with named tensors, a
// gradient of the same shape, and a forward and backward pass over a micro-batch. The scalar is a
// template parameter: training uses float, the numerical check of the gradients double. Losses in
// nats, summed over the predicted bytes. One thread per object.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <Eigen/Core>

#include "core/random.hpp"

namespace orrery::live {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;

/// A named slice of the flat parameter vector, column-major.
struct Tensor {
  const char* name;
  std::size_t offset;
  std::size_t rows, columns;
  constexpr std::size_t size() const { return rows * columns; }
};

/// Text of one micro-batch: `sequences` of equal length, one after the other.
struct Batch {
  std::span<const std::uint8_t> bytes;
  std::size_t sequences = 1;
  std::size_t length() const { return bytes.size() / sequences; }
};

/// Traffic of the embedding table, bytes: a row in for every token that uses it, its gradient out.
struct GatherCount {
  double used = 0;  ///< as if every use fetched its row
  double read = 0;  ///< really moved: every distinct row of a micro-batch once
};

template <class T>
class Network {
 public:
  explicit Network(std::span<const Tensor> tensors)
      : tensors_(tensors),
        parameters_(tensors.back().offset + tensors.back().size(), T{0}),
        gradient_(parameters_.size(), T{0}) {}
  virtual ~Network() = default;

  /// The slices, in the order of their names.
  std::span<const Tensor> tensors() const { return tensors_; }
  std::span<T> parameters() { return parameters_; }
  std::span<const T> parameters() const { return parameters_; }
  std::span<T> gradient() { return gradient_; }
  void zero_gradient() { std::fill(gradient_.begin(), gradient_.end(), T{0}); }
  const GatherCount& gathered() const { return gathered_; }  ///< by all calls of accumulate()

  /// Forward and backward: every byte of a sequence after its first `context` ones (see
  /// traces/training/model.hpp) is predicted from those before it. Adds to the gradient of the
  /// summed loss; returns that sum.
  virtual double accumulate(const Batch& batch) = 0;
  /// The summed loss alone.
  virtual double loss(const Batch& batch) const = 0;

 protected:
  using ConstView = Eigen::Map<const Matrix<T>>;
  using View = Eigen::Map<Matrix<T>>;

  ConstView weight(std::size_t slot) const {
    const Tensor& tensor = tensors_[slot];
    return ConstView(parameters_.data() + tensor.offset, Eigen::Index(tensor.rows),
                     Eigen::Index(tensor.columns));
  }
  View slope(std::size_t slot) {
    const Tensor& tensor = tensors_[slot];
    return View(gradient_.data() + tensor.offset, Eigen::Index(tensor.rows),
                Eigen::Index(tensor.columns));
  }
  void fill_normal(std::size_t slot, double deviation, Rng rng) {
    const Tensor& tensor = tensors_[slot];
    for (std::size_t i = 0; i < tensor.size(); ++i) {
      parameters_[tensor.offset + i] = static_cast<T>(deviation * rng.normal());
    }
  }
  void fill(std::size_t slot, double value) {
    const Tensor& tensor = tensors_[slot];
    std::fill_n(parameters_.begin() + std::ptrdiff_t(tensor.offset), tensor.size(), T(value));
  }
  void count_gather(std::size_t used, std::size_t read, std::size_t row) {
    gathered_.used += 2.0 * sizeof(T) * double(used) * double(row);
    gathered_.read += 2.0 * sizeof(T) * double(read) * double(row);
  }

 private:
  std::span<const Tensor> tensors_;
  std::vector<T> parameters_, gradient_;
  GatherCount gathered_;
};

/// Softmax over each column of `logits` in place, and the summed loss of the targets, nats.
template <class T>
double softmax_loss(Matrix<T>& logits, std::span<const std::uint8_t> targets);

/// A built-in model by its name in a scenario, its parameters drawn from `rng`: equal generators
/// give equal models. Throws bad_input for an unknown name.
std::unique_ptr<Network<float>> make_network(const std::string& builtin, Rng rng);

}  // namespace orrery::live
