#include "live/model.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <string_view>

#include <Eigen/Dense>

#include "core/error.hpp"
#include "core/sha256.hpp"

namespace orrery::live {
namespace {

using M = BuiltinModel;
constexpr std::size_t kInput = std::size_t{M::context} * M::embedding;

enum Slot : std::size_t { kEmbedding, kHiddenBias, kHiddenWeight, kOutputBias, kOutputWeight };
constexpr std::size_t kEmbeddingSize = std::size_t{M::embedding} * M::vocabulary;
constexpr std::array<Tensor, 5> kTensors{{
    {"embedding", 0, M::embedding, M::vocabulary},
    {"hidden.bias", kEmbeddingSize, M::hidden, 1},
    {"hidden.weight", kEmbeddingSize + M::hidden, M::hidden, kInput},
    {"output.bias", kEmbeddingSize + M::hidden*(kInput + 1), M::vocabulary, 1},
    {"output.weight", kEmbeddingSize + M::hidden*(kInput + 1) + M::vocabulary, M::vocabulary,
     M::hidden},
}};
static_assert(kTensors.back().offset + kTensors.back().rows * kTensors.back().columns ==
              builtin_parameter_count());

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;

template <class T>
Eigen::Map<const Matrix<T>> view(const std::vector<T>& flat, Slot slot) {
  const Tensor& tensor = kTensors[slot];
  return {flat.data() + tensor.offset, static_cast<Eigen::Index>(tensor.rows),
          static_cast<Eigen::Index>(tensor.columns)};
}

template <class T>
Eigen::Map<Matrix<T>> view(std::vector<T>& flat, Slot slot) {
  const Tensor& tensor = kTensors[slot];
  return {flat.data() + tensor.offset, static_cast<Eigen::Index>(tensor.rows),
          static_cast<Eigen::Index>(tensor.columns)};
}

template <class T>
void fill_normal(std::vector<T>& flat, Slot slot, double deviation, Rng rng) {
  for (std::size_t i = 0; i < kTensors[slot].size(); ++i) {
    flat[kTensors[slot].offset + i] = static_cast<T>(deviation * rng.normal());
  }
}

}  // namespace

std::span<const Tensor> model_tensors() { return kTensors; }

/// One column per predicted byte.
template <class T>
struct LanguageModel<T>::Activations {
  Matrix<T> input, hidden, probability;
};

template <class T>
LanguageModel<T>::LanguageModel(Rng rng)
    : parameters_(builtin_parameter_count(), T{0}), gradient_(builtin_parameter_count(), T{0}) {
  fill_normal(parameters_, kEmbedding, 0.5, rng.split("embedding"));
  fill_normal(parameters_, kHiddenWeight, 1.0 / std::sqrt(double{kInput}), rng.split("hidden"));
  fill_normal(parameters_, kOutputWeight, 0.5 / std::sqrt(double{M::hidden}), rng.split("output"));
}

template <class T>
void LanguageModel<T>::zero_gradient() {
  std::fill(gradient_.begin(), gradient_.end(), T{0});
}

template <class T>
double LanguageModel<T>::forward(std::span<const std::uint8_t> text, Activations& out) const {
  ensure(text.size() > M::context, "a training sequence is longer than the context");
  const auto columns = static_cast<Eigen::Index>(text.size() - M::context);
  const auto embedding = view(parameters_, kEmbedding);
  out.input.resize(kInput, columns);
  for (Eigen::Index column = 0; column < columns; ++column) {
    for (Eigen::Index k = 0; k < Eigen::Index{M::context}; ++k) {
      out.input.block(k * M::embedding, column, M::embedding, 1) =
          embedding.col(text[static_cast<std::size_t>(column + k)]);
    }
  }
  out.hidden.noalias() = view(parameters_, kHiddenWeight) * out.input;
  out.hidden.colwise() += view(parameters_, kHiddenBias).col(0);
  out.hidden = out.hidden.array().tanh().matrix();
  out.probability.noalias() = view(parameters_, kOutputWeight) * out.hidden;
  out.probability.colwise() += view(parameters_, kOutputBias).col(0);

  double loss = 0;
  for (Eigen::Index column = 0; column < columns; ++column) {
    auto logits = out.probability.col(column);
    logits.array() -= logits.maxCoeff();
    const T target = logits(text[static_cast<std::size_t>(column) + M::context]);
    logits = logits.array().exp().matrix();
    const T sum = logits.sum();
    logits /= sum;
    loss += std::log(static_cast<double>(sum)) - static_cast<double>(target);
  }
  return loss;
}

template <class T>
double LanguageModel<T>::loss(std::span<const std::uint8_t> text) const {
  Activations activations;
  return forward(text, activations);
}

template <class T>
double LanguageModel<T>::accumulate(std::span<const std::uint8_t> text) {
  Activations activations;
  const double loss = forward(text, activations);
  auto& [input, hidden, delta] = activations;
  const Eigen::Index columns = delta.cols();
  for (Eigen::Index column = 0; column < columns; ++column) {
    delta(text[static_cast<std::size_t>(column) + M::context], column) -= T{1};
  }
  view(gradient_, kOutputWeight).noalias() += delta * hidden.transpose();
  view(gradient_, kOutputBias).col(0) += delta.rowwise().sum();
  Matrix<T> delta_hidden = view(parameters_, kOutputWeight).transpose() * delta;
  delta_hidden.array() *= T{1} - hidden.array().square();
  view(gradient_, kHiddenWeight).noalias() += delta_hidden * input.transpose();
  view(gradient_, kHiddenBias).col(0) += delta_hidden.rowwise().sum();
  const Matrix<T> delta_input = view(parameters_, kHiddenWeight).transpose() * delta_hidden;
  auto embedding = view(gradient_, kEmbedding);
  for (Eigen::Index column = 0; column < columns; ++column) {
    for (Eigen::Index k = 0; k < Eigen::Index{M::context}; ++k) {
      embedding.col(text[static_cast<std::size_t>(column + k)]) +=
          delta_input.block(k * M::embedding, column, M::embedding, 1);
    }
  }
  return loss;
}

template class LanguageModel<float>;
template class LanguageModel<double>;

double memory_traffic(std::size_t length) {
  // Parameters are read forward and backward, their gradient read and written; each position
  // reads and writes its activations forward and backward.
  constexpr double kActivations = kInput + M::hidden + M::vocabulary;
  return 4.0 * sizeof(float) *
         (builtin_parameter_count() + static_cast<double>(length) * kActivations);
}

Adam::Adam(std::size_t size, double learning_rate)
    : learning_rate_(learning_rate), mean_(size, 0.0F), square_(size, 0.0F) {}

void Adam::update(std::span<float> parameters, std::span<const float> gradient, float scale) {
  ensure(parameters.size() == mean_.size() && gradient.size() == mean_.size(),
         "parameters, gradient and optimizer state have one size");
  constexpr float kMeanDecay = 0.9F, kSquareDecay = 0.999F, kEpsilon = 1e-8F;
  ++steps_;
  const double count = static_cast<double>(steps_);
  const double square_correction = 1.0 - std::pow(double{kSquareDecay}, count);
  const auto rate = static_cast<float>(learning_rate_ * std::sqrt(square_correction) /
                                       (1.0 - std::pow(double{kMeanDecay}, count)));
  for (std::size_t i = 0; i < mean_.size(); ++i) {
    const float slope = gradient[i] * scale;
    mean_[i] = kMeanDecay * mean_[i] + (1.0F - kMeanDecay) * slope;
    square_[i] = kSquareDecay * square_[i] + (1.0F - kSquareDecay) * slope * slope;
    parameters[i] -= rate * mean_[i] / (std::sqrt(square_[i]) + kEpsilon);
  }
}

std::string parameters_sha256(std::span<const float> parameters) {
  static_assert(std::endian::native == std::endian::little);
  ensure(parameters.size() == builtin_parameter_count(), "the model's parameters are whole");
  Sha256 hash;
  for (const Tensor& tensor : kTensors) {
    const std::string_view name = tensor.name;
    hash.update(std::string_view(name.data(), name.size() + 1));
    hash.update({reinterpret_cast<const char*>(parameters.data() + tensor.offset),
                 tensor.size() * sizeof(float)});
  }
  return hash.hex();
}

}  // namespace orrery::live
