#include "live/training/model.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>

#include <Eigen/Dense>

#include "core/error.hpp"
#include "core/sha256.hpp"
#include "live/training/token_gather.hpp"

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

/// Text position of the first byte that a column is predicted from, and of the byte it predicts.
struct Columns {
  explicit Columns(const Batch& batch) : length(batch.length()) {
    ensure(length > M::context, "a training sequence is longer than the context");
    ensure(batch.sequences * length == batch.bytes.size(), "sequences are of equal length");
    per_sequence = length - M::context;
    count = batch.sequences * per_sequence;
  }
  std::size_t first(std::size_t column) const {
    return column / per_sequence * length + column % per_sequence;
  }
  std::size_t length, per_sequence = 0, count = 0;
};

std::vector<std::uint8_t> targets_of(const Batch& batch, const Columns& columns) {
  std::vector<std::uint8_t> targets;
  targets.reserve(columns.count);
  for (std::size_t i = 0; i < columns.count; ++i) {
    targets.push_back(batch.bytes[columns.first(i) + M::context]);
  }
  return targets;
}

}  // namespace

/// One column per predicted byte.
template <class T>
struct LanguageModel<T>::Activations {
  explicit Activations(const Batch& batch)
      : columns(batch), targets(targets_of(batch, columns)), gather(batch.bytes) {}
  Columns columns;
  std::vector<std::uint8_t> targets;
  TokenGather gather;
  Matrix<T> input, hidden, probability;
};

template <class T>
LanguageModel<T>::LanguageModel(Rng rng) : Network<T>(kTensors) {
  this->fill_normal(kEmbedding, 0.5, rng.split_stream("embedding"));
  this->fill_normal(kHiddenWeight, 1.0 / std::sqrt(double{kInput}), rng.split_stream("hidden"));
  this->fill_normal(kOutputWeight, 0.5 / std::sqrt(double{M::hidden}), rng.split_stream("output"));
}

template <class T>
double LanguageModel<T>::forward(Activations& out) const {
  const auto columns = static_cast<Eigen::Index>(out.columns.count);
  const Matrix<T> rows = gather_rows<T>(this->weight(kEmbedding), out.gather);
  out.input.resize(kInput, columns);
  for (Eigen::Index column = 0; column < columns; ++column) {
    const std::size_t first = out.columns.first(static_cast<std::size_t>(column));
    for (Eigen::Index k = 0; k < Eigen::Index{M::context}; ++k) {
      out.input.block(k * M::embedding, column, M::embedding, 1) =
          rows.col(out.gather.slots()[first + static_cast<std::size_t>(k)]);
    }
  }
  out.hidden.noalias() = this->weight(kHiddenWeight) * out.input;
  out.hidden.colwise() += this->weight(kHiddenBias).col(0);
  out.hidden = out.hidden.array().tanh().matrix();
  out.probability.noalias() = this->weight(kOutputWeight) * out.hidden;
  out.probability.colwise() += this->weight(kOutputBias).col(0);
  return softmax_loss(out.probability, out.targets);
}

template <class T>
double LanguageModel<T>::loss(const Batch& batch) const {
  Activations activations(batch);
  return forward(activations);
}

template <class T>
double LanguageModel<T>::accumulate_gradient(const Batch& batch) {
  Activations activations(batch);
  const double loss = forward(activations);
  auto& [places, targets, gather, input, hidden, delta] = activations;
  const Eigen::Index columns = delta.cols();
  for (Eigen::Index column = 0; column < columns; ++column) {
    delta(targets[static_cast<std::size_t>(column)], column) -= T{1};
  }
  this->slope(kOutputWeight).noalias() += delta * hidden.transpose();
  this->slope(kOutputBias).col(0) += delta.rowwise().sum();
  Matrix<T> delta_hidden = this->weight(kOutputWeight).transpose() * delta;
  delta_hidden.array() *= T{1} - hidden.array().square();
  this->slope(kHiddenWeight).noalias() += delta_hidden * input.transpose();
  this->slope(kHiddenBias).col(0) += delta_hidden.rowwise().sum();
  const Matrix<T> delta_input = this->weight(kHiddenWeight).transpose() * delta_hidden;
  Matrix<T> delta_rows = Matrix<T>::Zero(M::embedding, Eigen::Index(gather.rows().size()));
  for (Eigen::Index column = 0; column < columns; ++column) {
    const std::size_t first = places.first(static_cast<std::size_t>(column));
    for (Eigen::Index k = 0; k < Eigen::Index{M::context}; ++k) {
      delta_rows.col(gather.slots()[first + static_cast<std::size_t>(k)]) +=
          delta_input.block(k * M::embedding, column, M::embedding, 1);
    }
  }
  scatter_rows<T>(delta_rows, gather, this->slope(kEmbedding));
  this->count_gather(places.count * M::context, gather.rows().size(), M::embedding);
  return loss;
}

template class LanguageModel<float>;
template class LanguageModel<double>;

double memory_traffic(const std::string& builtin, std::uint32_t length) {
  // Parameters are read forward and backward, their gradient read and written; each position
  // reads and writes its activations forward and backward.
  const BuiltinCost cost = builtin_cost(builtin, length);
  return 4.0 * sizeof(float) * (cost.parameters + length * cost.activations);
}

namespace {

constexpr float kMeanDecay = 0.9F, kSquareDecay = 0.999F;

}  // namespace

float adam_rate(double learning_rate, std::uint64_t step) {
  const double count = static_cast<double>(step);
  const double square_correction = 1.0 - std::pow(double{kSquareDecay}, count);
  return static_cast<float>(learning_rate * std::sqrt(square_correction) /
                            (1.0 - std::pow(double{kMeanDecay}, count)));
}

Adam::Adam(std::size_t size, double learning_rate)
    : learning_rate_(learning_rate), mean_(size, 0.0F), square_(size, 0.0F) {}

void Adam::update(std::span<float> parameters, std::span<const float> gradient, float scale,
                  double rate_factor) {
  ensure(parameters.size() == mean_.size() && gradient.size() == mean_.size(),
         "parameters, gradient and optimizer state have one size");
  const float rate = adam_rate(learning_rate_ * rate_factor, ++steps_);
  update_range(parameters, gradient, scale, rate, 0, mean_.size());
}

Checksum Adam::update(std::span<float> parameters, std::span<const float> gradient, float scale,
                      std::uint64_t first, StateChecksums& sums, double rate_factor) {
  ensure(parameters.size() == mean_.size() && gradient.size() == mean_.size(),
         "parameters, gradient and optimizer state have one size");
  constexpr std::size_t kBlock = 1024;  // stays in the processor's first cache
  Checksum updated;
  const float rate = adam_rate(learning_rate_ * rate_factor, ++steps_);
  for (std::size_t begin = 0; begin < mean_.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, mean_.size() - begin);
    const auto checksums = [&] {
      StateChecksums block;
      block.parameters.add(parameters.subspan(begin, count), first + begin);
      block.moments.add_moments(mean().subspan(begin, count), square().subspan(begin, count),
                                first + begin);
      return block;
    };
    const StateChecksums before = checksums();
    update_range(parameters, gradient, scale, rate, begin, begin + count);
    const StateChecksums after = checksums();
    sums.parameters -= before.parameters;
    sums.parameters += after.parameters;
    sums.moments -= before.moments;
    sums.moments += after.moments;
    updated += after.parameters;
  }
  return updated;
}

void Adam::update_range(std::span<float> parameters, std::span<const float> gradient, float scale,
                        float rate, std::size_t begin, std::size_t end) {
  constexpr float kEpsilon = 1e-8F;
  for (std::size_t i = begin; i < end; ++i) {
    const float slope = gradient[i] * scale;
    mean_[i] = kMeanDecay * mean_[i] + (1.0F - kMeanDecay) * slope;
    square_[i] = kSquareDecay * square_[i] + (1.0F - kSquareDecay) * slope * slope;
    parameters[i] -= rate * mean_[i] / (std::sqrt(square_[i]) + kEpsilon);
  }
}

void Adam::append_state(std::string& bytes) const {
  bytes.append(reinterpret_cast<const char*>(&steps_), sizeof steps_);
  for (const std::vector<float>* moment : {&mean_, &square_}) {
    bytes.append(reinterpret_cast<const char*>(moment->data()), moment->size() * sizeof(float));
  }
}

void Adam::set_state(std::string_view bytes) {
  const std::size_t moment_bytes = mean_.size() * sizeof(float);
  ensure(bytes.size() == sizeof steps_ + 2 * moment_bytes, "a state is that of this optimizer");
  std::memcpy(&steps_, bytes.data(), sizeof steps_);
  std::memcpy(mean_.data(), bytes.data() + sizeof steps_, moment_bytes);
  std::memcpy(square_.data(), bytes.data() + sizeof steps_ + moment_bytes, moment_bytes);
}

void Adam::set_state(std::uint64_t steps, std::span<const float> mean,
                     std::span<const float> square) {
  ensure(mean.size() == mean_.size() && square.size() == square_.size(),
         "a state is that of this optimizer");
  steps_ = steps;
  std::copy(mean.begin(), mean.end(), mean_.begin());
  std::copy(square.begin(), square.end(), square_.begin());
}

std::string parameters_sha256(const Network<float>& network) {
  static_assert(std::endian::native == std::endian::little);
  const std::span<const float> parameters = network.parameters();
  Sha256 hash;
  for (const Tensor& tensor : network.tensors()) {
    const std::string_view name = tensor.name;
    hash.update(std::string_view(name.data(), name.size() + 1));
    hash.update({reinterpret_cast<const char*>(parameters.data() + tensor.offset),
                 tensor.size() * sizeof(float)});
  }
  return hash.hex();
}

}  // namespace orrery::live
