// Base of the built-in models: one flat vector of parameters with named tensors, a gradient of the
// same shape, and a forward and backward pass over a micro-batch. The scalar is a template
// parameter: training uses float, the numerical check of the gradients double. Losses in nats,
// summed over the predicted bytes. One thread for each object.
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

/// Named slice of the flat parameter vector, column-major.
struct Tensor {
  const char* name;
  std::size_t offset;
  std::size_t rows, columns;
  /// Returns the number of values.
  constexpr std::size_t size() const { return rows * columns; }
};

/// Text of one micro-batch: `sequences` of equal length, one after the other.
struct Batch {
  std::span<const std::uint8_t> bytes;
  std::size_t sequences = 1;
  /// Returns the length of one sequence, rounded down; `sequences` must not be 0.
  std::size_t length() const { return bytes.size() / sequences; }
};

/// Traffic of the embedding table in bytes: rows read for the tokens, and their gradients written.
struct GatherCount {
  double used = 0;  ///< bytes if every use fetched its row
  double read = 0;  ///< real traffic: every distinct row of a micro-batch once
};

/// Model with parameters and gradient.
template <class T>
class Network {
 public:
  /// Constructs a model whose parameters and gradient are zero. `tensors`: at least one, in order,
  /// without gaps; their array must outlive the model.
  explicit Network(std::span<const Tensor> tensors)
      : tensors_(tensors),
        parameters_(tensors.back().offset + tensors.back().size(), T{0}),
        gradient_(parameters_.size(), T{0}) {}
  virtual ~Network() = default;

  /// Returns the slices, in the order of their names and offsets.
  std::span<const Tensor> tensors() const { return tensors_; }
  /// Returns the parameters, which may be changed in place; valid as long as this object, as
  /// gradient().
  std::span<T> parameters() { return parameters_; }
  std::span<const T> parameters() const { return parameters_; }
  /// Returns the sum of the gradients since the last zero_gradient(); may be changed in place.
  std::span<T> gradient() { return gradient_; }
  /// Sets the gradient to zero; gather_count() stays.
  void zero_gradient() { std::fill(gradient_.begin(), gradient_.end(), T{0}); }
  /// Returns the sum over all calls of accumulate_gradient() since the construction.
  const GatherCount& gather_count() const { return gathered_; }

  /// Runs forward and backward: every byte of a sequence after its first `context` ones (see
  /// traces/workload/model.hpp; 1 for the transformer) is predicted from the previous ones. Adds
  /// the gradient of the summed loss to gradient(), and the traffic to gather_count(); the
  /// parameters stay. Returns the summed loss, not divided by the number of bytes. Throws an
  /// internal Error, without a change, for sequences of unequal length, or not longer than the
  /// context. The batch must have a sequence.
  virtual double accumulate_gradient(const Batch& batch) = 0;
  /// Returns the summed loss, and changes nothing. Throws as accumulate_gradient().
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

/// Replaces each column of `logits` by its softmax, and returns the summed loss of the targets in
/// nats; 0 without columns. `targets`: one row number for each column, unchecked.
template <class T>
double softmax_loss(Matrix<T>& logits, std::span<const std::uint8_t> targets);

/// Returns a built-in model by its name in a scenario, with parameters drawn from `rng`: equal
/// generators give equal models. Throws bad_input for an unknown name.
std::unique_ptr<Network<float>> make_network(const std::string& builtin, Rng rng);

}  // namespace orrery::live
