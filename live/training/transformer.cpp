#include "live/training/transformer.hpp"

#include <array>
#include <cmath>
#include <utility>

#include <Eigen/Dense>

#include "core/error.hpp"
#include "live/training/token_gather.hpp"
#include "traces/workload/model.hpp"

namespace orrery::live {
namespace {

using M = BuiltinTransformer;
using Eigen::Index;
constexpr Index kHidden = M::hidden, kHead = M::hidden / M::heads, kWide = M::feed_forward;
static_assert(M::layers == 2 && M::hidden % M::heads == 0 && kHead % 2 == 0);

enum Slot : std::size_t { kEmbedding, kOutput, kLayers };
enum LayerSlot : std::size_t { kAttentionNorm, kAttentionOut, kQkv, kDown, kMlpNorm, kUp };
constexpr std::size_t kSlotsPerLayer = 6, kNorm = kLayers + M::layers * kSlotsPerLayer;

constexpr std::size_t slot_of(std::size_t layer, LayerSlot which) {
  return kLayers + layer * kSlotsPerLayer + which;
}

constexpr auto kTensors = [] {
  std::array<Tensor, kNorm + 1> out{{
      {"embedding", 0, M::hidden, M::vocabulary},
      {"head", 0, M::vocabulary, M::hidden},
      {"layer0.attention.norm", 0, M::hidden, 1},
      {"layer0.attention.out", 0, M::hidden, M::hidden},
      {"layer0.attention.qkv", 0, 3 * M::hidden, M::hidden},
      {"layer0.mlp.down", 0, M::hidden, M::feed_forward},
      {"layer0.mlp.norm", 0, M::hidden, 1},
      {"layer0.mlp.up", 0, 2 * M::feed_forward, M::hidden},
      {"layer1.attention.norm", 0, M::hidden, 1},
      {"layer1.attention.out", 0, M::hidden, M::hidden},
      {"layer1.attention.qkv", 0, 3 * M::hidden, M::hidden},
      {"layer1.mlp.down", 0, M::hidden, M::feed_forward},
      {"layer1.mlp.norm", 0, M::hidden, 1},
      {"layer1.mlp.up", 0, 2 * M::feed_forward, M::hidden},
      {"norm", 0, M::hidden, 1},
  }};
  for (std::size_t i = 1; i < out.size(); ++i) {
    out[i].offset = out[i - 1].offset + out[i - 1].size();
  }
  return out;
}();

/// Normalised input: `unit` has mean square 1 in each column, `inverse` is the factor that achieved
/// it.
template <class T>
struct Normed {
  Matrix<T> unit, out;
  Eigen::Matrix<T, 1, Eigen::Dynamic> inverse;
};

template <class T, class Gain>
Normed<T> rms_norm(const Matrix<T>& x, const Gain& gain) {
  constexpr T kEpsilon = T(1e-5);
  Normed<T> kept;
  kept.inverse = (x.array().square().colwise().mean() + kEpsilon).rsqrt();
  kept.unit = x.array().rowwise() * kept.inverse.array();
  kept.out = kept.unit.array().colwise() * gain.col(0).array();
  return kept;
}

/// Adds the gradient of the input to `delta`, that of the gain to `gain_slope`.
template <class T, class Gain, class Slope>
void rms_norm_backward(const Normed<T>& kept, const Gain& gain, Slope gain_slope,
                       const Matrix<T>& delta_out, Matrix<T>& delta) {
  gain_slope.col(0) += (delta_out.array() * kept.unit.array()).rowwise().sum().matrix();
  const Matrix<T> inner = delta_out.array().colwise() * gain.col(0).array();
  const Eigen::Matrix<T, 1, Eigen::Dynamic> along =
      (inner.array() * kept.unit.array()).colwise().mean();
  delta.array() += (inner.array() - kept.unit.array().rowwise() * along.array()).rowwise() *
                   kept.inverse.array();
}

/// Cosine and sine by which position p turns pair i of a head: angle p / 10000^(2i / head).
template <class T>
struct Turns {
  explicit Turns(Index length) : cosine(kHead / 2, length), sine(kHead / 2, length) {
    for (Index pair = 0; pair < kHead / 2; ++pair) {
      const double rate = std::pow(10000.0, -2.0 * double(pair) / double(kHead));
      for (Index at = 0; at < length; ++at) {
        cosine(pair, at) = static_cast<T>(std::cos(rate * double(at)));
        sine(pair, at) = static_cast<T>(std::sin(rate * double(at)));
      }
    }
  }
  Matrix<T> cosine, sine;

  /// Turns the first and second half of every head's rows of queries and keys; `back` undoes it.
  void turn(Matrix<T>& qkv, bool back) const {
    constexpr Index kHalf = kHead / 2;
    const Index length = cosine.cols();
    const T sign = back ? T(-1) : T(1);
    for (Index start = 0; start < qkv.cols(); start += length) {
      for (Index row = 0; row < 2 * kHidden; row += kHead) {
        auto one = qkv.block(row, start, kHalf, length).array();
        auto two = qkv.block(row + kHalf, start, kHalf, length).array();
        const Matrix<T> turned = one * cosine.array() - sign * two * sine.array();
        two = two * cosine.array() + sign * one * sine.array();
        one = turned.array();
      }
    }
  }
};

}  // namespace

template <class T>
struct Transformer<T>::Layer {
  Normed<T> attention_in, mlp_in;
  Matrix<T> qkv;                   // queries and keys turned
  std::vector<Matrix<T>> weights;  // indexed by sequence and head: (key, query), columns sum to 1
  Matrix<T> mixed;                 // values, weighted, all heads
  Matrix<T> up, gate, wide;        // MLP: sigmoid(gate rows), and the input of the down projection
};

template <class T>
struct Transformer<T>::Pass {
  explicit Pass(const Batch& batch)
      : sequences(static_cast<Index>(batch.sequences)),
        length(static_cast<Index>(batch.length()) - 1),
        inputs(cut(batch, 0)),
        targets(cut(batch, 1)),
        turns(length),
        gather(inputs) {}

  /// All sequences without their last (offset 0) or first (offset 1) byte.
  static std::vector<std::uint8_t> cut(const Batch& batch, std::size_t offset) {
    ensure(batch.length() > 1 && batch.sequences * batch.length() == batch.bytes.size(),
           "sequences of equal length, each with a byte to predict");
    std::vector<std::uint8_t> out;
    for (std::size_t i = 0; i < batch.sequences; ++i) {
      const auto piece = batch.bytes.subspan(i * batch.length() + offset, batch.length() - 1);
      out.insert(out.end(), piece.begin(), piece.end());
    }
    return out;
  }

  Index sequences, length;
  std::vector<std::uint8_t> inputs, targets;  // checked first
  Turns<T> turns;
  TokenGather gather;
  std::array<Layer, M::layers> layers;
  Normed<T> last;
  Matrix<T> probability;
};

template <class T>
Transformer<T>::Transformer(Rng rng) : Network<T>(kTensors) {
  const double fan_in = 1.0 / std::sqrt(double{M::hidden});
  // Parts that add to the residual stream start small, so that depth does not add up.
  const double residual = 1.0 / std::sqrt(2.0 * M::layers);
  this->fill_normal(kEmbedding, 0.5, rng.split_stream("embedding"));
  this->fill_normal(kOutput, 0.5 * fan_in, rng.split_stream("head"));
  this->fill(kNorm, 1);
  for (std::size_t layer = 0; layer < M::layers; ++layer) {
    const auto draw = [&](LayerSlot which, double deviation) {
      const std::size_t slot = slot_of(layer, which);
      this->fill_normal(slot, deviation, rng.split_stream(kTensors[slot].name));
    };
    draw(kQkv, fan_in);
    draw(kAttentionOut, fan_in * residual);
    draw(kUp, fan_in);
    draw(kDown, residual / std::sqrt(double{M::feed_forward}));
    this->fill(slot_of(layer, kAttentionNorm), 1);
    this->fill(slot_of(layer, kMlpNorm), 1);
  }
}

template <class T>
Transformer<T>::~Transformer() = default;

template <class T>
void Transformer<T>::compute_attention(Layer& kept, const Pass& pass) const {
  const T scale = T(1) / std::sqrt(T(kHead));
  kept.mixed.resize(kHidden, kept.qkv.cols());
  kept.weights.clear();
  for (Index sequence = 0; sequence < pass.sequences; ++sequence) {
    const auto qkv = kept.qkv.middleCols(sequence * pass.length, pass.length);
    for (Index head = 0; head < Index{M::heads}; ++head) {
      const Index row = head * kHead;
      Matrix<T> scores = qkv.middleRows(kHidden + row, kHead).transpose() *
                         (qkv.middleRows(row, kHead) * scale);
      for (Index query = 0; query < pass.length; ++query) {
        auto seen = scores.col(query).head(query + 1);
        seen = (seen.array() - seen.maxCoeff()).exp().matrix();
        seen /= seen.sum();
        scores.col(query).tail(pass.length - query - 1).setZero();
      }
      kept.mixed.block(row, sequence * pass.length, kHead, pass.length).noalias() =
          qkv.middleRows(2 * kHidden + row, kHead) * scores;
      kept.weights.push_back(std::move(scores));
    }
  }
}

template <class T>
void Transformer<T>::attend_backward(const Layer& kept, const Matrix<T>& delta,
                                     Matrix<T>& delta_qkv, const Pass& pass) const {
  const T scale = T(1) / std::sqrt(T(kHead));
  delta_qkv.resize(3 * kHidden, kept.qkv.cols());
  auto weights = kept.weights.begin();
  for (Index sequence = 0; sequence < pass.sequences; ++sequence) {
    const Index start = sequence * pass.length;
    const auto qkv = kept.qkv.middleCols(start, pass.length);
    auto out = delta_qkv.middleCols(start, pass.length);
    for (Index head = 0; head < Index{M::heads}; ++head, ++weights) {
      const Index row = head * kHead;
      const auto mixed = delta.block(row, start, kHead, pass.length);
      out.middleRows(2 * kHidden + row, kHead).noalias() = mixed * weights->transpose();
      Matrix<T> scores = qkv.middleRows(2 * kHidden + row, kHead).transpose() * mixed;
      // Backward through the softmax: a masked key has weight 0 and changes nothing.
      const Eigen::Matrix<T, 1, Eigen::Dynamic> along =
          (scores.array() * weights->array()).colwise().sum();
      scores = (scores.array().rowwise() - along.array()) * weights->array() * scale;
      out.middleRows(row, kHead).noalias() = qkv.middleRows(kHidden + row, kHead) * scores;
      out.middleRows(kHidden + row, kHead).noalias() =
          qkv.middleRows(row, kHead) * scores.transpose();
    }
  }
}

template <class T>
void Transformer<T>::forward(std::size_t layer, Layer& kept, Matrix<T>& x,
                             const Pass& pass) const {
  const auto weight = [&](LayerSlot which) { return this->weight(slot_of(layer, which)); };
  kept.attention_in = rms_norm(x, weight(kAttentionNorm));
  kept.qkv.noalias() = weight(kQkv) * kept.attention_in.out;
  pass.turns.turn(kept.qkv, false);
  compute_attention(kept, pass);
  x.noalias() += weight(kAttentionOut) * kept.mixed;
  kept.mlp_in = rms_norm(x, weight(kMlpNorm));
  kept.up.noalias() = weight(kUp) * kept.mlp_in.out;
  kept.gate = (T(1) + (-kept.up.topRows(kWide).array()).exp()).inverse().matrix();
  kept.wide = kept.up.topRows(kWide).array() * kept.gate.array() *
              kept.up.bottomRows(kWide).array();
  x.noalias() += weight(kDown) * kept.wide;
}

template <class T>
void Transformer<T>::backward(std::size_t layer, const Layer& kept, Matrix<T>& delta,
                              const Pass& pass) {
  const auto weight = [&](LayerSlot which) { return this->weight(slot_of(layer, which)); };
  const auto slope = [&](LayerSlot which) { return this->slope(slot_of(layer, which)); };
  slope(kDown).noalias() += delta * kept.wide.transpose();
  const Matrix<T> delta_wide = weight(kDown).transpose() * delta;
  // d(x sigmoid(x))/dx = s + x s (1 - s)
  const auto gate_in = kept.up.topRows(kWide).array();
  const auto other = kept.up.bottomRows(kWide).array();
  const auto s = kept.gate.array();
  Matrix<T> delta_up(2 * kWide, delta.cols());
  delta_up.topRows(kWide) = delta_wide.array() * other * (s + gate_in * s * (T(1) - s));
  delta_up.bottomRows(kWide) = delta_wide.array() * gate_in * s;
  slope(kUp).noalias() += delta_up * kept.mlp_in.out.transpose();
  const Matrix<T> delta_mlp = weight(kUp).transpose() * delta_up;
  rms_norm_backward(kept.mlp_in, weight(kMlpNorm), slope(kMlpNorm), delta_mlp, delta);

  slope(kAttentionOut).noalias() += delta * kept.mixed.transpose();
  const Matrix<T> delta_mixed = weight(kAttentionOut).transpose() * delta;
  Matrix<T> delta_qkv;
  attend_backward(kept, delta_mixed, delta_qkv, pass);
  pass.turns.turn(delta_qkv, true);
  slope(kQkv).noalias() += delta_qkv * kept.attention_in.out.transpose();
  const Matrix<T> delta_in = weight(kQkv).transpose() * delta_qkv;
  rms_norm_backward(kept.attention_in, weight(kAttentionNorm), slope(kAttentionNorm), delta_in,
                    delta);
}

template <class T>
double Transformer<T>::forward(const Batch& batch, Pass& pass) const {
  ensure(batch.sequences > 0, "a micro-batch has a sequence");
  const Matrix<T> rows = gather_rows<T>(this->weight(kEmbedding), pass.gather);
  Matrix<T> x(kHidden, static_cast<Index>(pass.inputs.size()));
  for (std::size_t i = 0; i < pass.inputs.size(); ++i) {
    x.col(static_cast<Index>(i)) = rows.col(pass.gather.slots()[i]);
  }
  for (std::size_t layer = 0; layer < M::layers; ++layer) {
    forward(layer, pass.layers[layer], x, pass);
  }
  pass.last = rms_norm(x, this->weight(kNorm));
  pass.probability.noalias() = this->weight(kOutput) * pass.last.out;
  return softmax_loss(pass.probability, pass.targets);
}

template <class T>
double Transformer<T>::loss(const Batch& batch) const {
  Pass pass(batch);
  return forward(batch, pass);
}

template <class T>
double Transformer<T>::accumulate_gradient(const Batch& batch) {
  Pass pass(batch);
  const double loss = forward(batch, pass);
  Matrix<T>& logits = pass.probability;
  for (std::size_t i = 0; i < pass.targets.size(); ++i) {
    logits(pass.targets[i], static_cast<Index>(i)) -= T(1);
  }
  this->slope(kOutput).noalias() += logits * pass.last.out.transpose();
  const Matrix<T> delta_out = this->weight(kOutput).transpose() * logits;
  Matrix<T> delta = Matrix<T>::Zero(kHidden, logits.cols());
  rms_norm_backward(pass.last, this->weight(kNorm), this->slope(kNorm), delta_out, delta);
  for (std::size_t layer = M::layers; layer-- > 0;) {
    backward(layer, pass.layers[layer], delta, pass);
  }
  Matrix<T> delta_rows = Matrix<T>::Zero(kHidden, static_cast<Index>(pass.gather.rows().size()));
  for (std::size_t i = 0; i < pass.inputs.size(); ++i) {
    delta_rows.col(pass.gather.slots()[i]) += delta.col(static_cast<Index>(i));
  }
  scatter_rows<T>(delta_rows, pass.gather, this->slope(kEmbedding));
  this->count_gather(pass.inputs.size(), pass.gather.rows().size(), M::hidden);
  return loss;
}

template class Transformer<float>;
template class Transformer<double>;

}  // namespace orrery::live
