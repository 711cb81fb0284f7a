// Training step of a decoder transformer on a device: the computation of
// live/training/transformer.cpp, in matrix products of a library and loops over positions, rows or
// values. The device is a template parameter: CUDA in the module (gpu_machine.cuh), plain loops in
// the tests, which check this arithmetic where no GPU exists. Columns are positions, matrices are
// column-major, values fp32, losses nats. C++17, for CUDA's compiler. One thread. A Machine has:
// Team (lane(), lanes(), sum(x), max(x) over the lanes of one item), for_each(count, body(i)),
// teams(count, body(i, team)), sum_words(count, body(i, word_sums)), multiply_matrices(Product),
// allocate_bytes/release, zero, upload_bytes, download_bytes. Work runs in the order of the calls;
// download_bytes() and sum_words() wait for it.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "live/cuda/word_sums.hpp"

namespace orrery::live::gpu {

using u8 = std::uint8_t;
using u64 = std::uint64_t;

/// Sizes of the transformer.
struct Shape {
  u64 layers, hidden, heads, wide, vocabulary;
  /// Returns the hidden values of one head; `heads` must not be 0.
  u64 head() const { return hidden / heads; }
};

/// Matrix product c = alpha a b + beta c, `many` times at the strides; a is m x k, b k x n, after
/// their transposition if any. Leading dimensions and strides count values.
struct Product {
  u64 m, n, k;
  const float* a;
  u64 a_lead;
  bool a_turned;
  const float* b;
  u64 b_lead;
  bool b_turned;
  float* c;
  u64 c_lead;
  float alpha, beta;
  u64 many, a_stride, b_stride, c_stride;
};

/// Offsets of the tensors in the flat parameters: by name, as in live/training/transformer.cpp.
struct Places {
  explicit Places(const Shape& shape) {
    const u64 square = shape.hidden * shape.hidden;
    const auto take = [this](u64 size) {
      const u64 at = total;
      total += size;
      return at;
    };
    embedding = take(shape.hidden * shape.vocabulary);
    output = take(shape.vocabulary * shape.hidden);
    for (u64 layer = 0; layer < shape.layers; ++layer) {
      Layer each;
      each.attention_norm = take(shape.hidden);
      each.attention_out = take(square);
      each.qkv = take(3 * square);
      each.down = take(shape.hidden * shape.wide);
      each.mlp_norm = take(shape.hidden);
      each.up = take(2 * shape.wide * shape.hidden);
      layers.push_back(each);
    }
    norm = take(shape.hidden);
  }
  struct Layer { u64 attention_norm, attention_out, qkv, down, mlp_norm, up; };
  u64 embedding, output, norm, total = 0;
  std::vector<Layer> layers;
};

/// Training step of the transformer on a machine: forward, backward and update.
template <class Machine>
class TransformerStep {
  using Team = typename Machine::Team;

 public:
  /// Allocates parameters, gradient and moments, all 0; `machine` must outlive this object. Throws
  /// std::invalid_argument if the heads do not divide `hidden` into even sizes, and the machine's
  /// errors.
  TransformerStep(Machine& machine, const Shape& shape)
      : machine_(machine), shape_(shape), places_(shape) {
    if (shape.heads == 0 || shape.hidden % (2 * shape.heads) != 0) {
      throw std::invalid_argument("heads of an even size make up the hidden values");
    }
    for (float** each : {&parameters, &gradient, &mean, &square}) {
      *each = static_cast<float*>(machine_.allocate_bytes(4 * places_.total));
      machine_.zero(*each, 4 * places_.total);
    }
  }
  ~TransformerStep() {
    for (float* each : {parameters, gradient, mean, square}) machine_.release(each);
    machine_.release(arena_);
  }
  TransformerStep(const TransformerStep&) = delete;
  TransformerStep& operator=(const TransformerStep&) = delete;

  /// Returns the number of parameters.
  u64 size() const { return places_.total; }

  /// Runs forward and backward of `sequences` of `length` + 1 bytes each and adds to the gradient.
  /// Blocks until the work is done and returns the summed loss; the parameters stay. `bytes` are in
  /// host memory and below the vocabulary, not checked. Other sizes than those of the call before
  /// cost an upload, larger ones an allocation. Throws std::invalid_argument if `sequences` or
  /// `length` is 0, and the machine's errors, after which the gradient and later results are
  /// undefined.
  double accumulate_gradient(const u8* bytes, u64 sequences, u64 length) {
    make_room(sequences, length);
    // Inputs are all bytes of a sequence except the last, targets all except the first.
    std::vector<u8> inputs(positions()), targets(positions());
    for (u64 each = 0; each < sequences_; ++each) {
      const u8* const from = bytes + each * (length_ + 1);
      std::memcpy(inputs.data() + each * length_, from, length_);
      std::memcpy(targets.data() + each * length_, from + 1, length_);
    }
    machine_.upload_bytes(inputs_, inputs.data(), inputs.size());
    machine_.upload_bytes(targets_, targets.data(), targets.size());
    forward();
    backward();
    std::vector<double> losses(positions());
    machine_.download_bytes(losses.data(), losses_, 8 * positions());
    double sum = 0;
    for (const double each : losses) sum += each;
    return sum;
  }

  /// Updates the parameters by Adam, as in live/training/model.cpp; `rate` holds the bias
  /// corrections, `scale` multiplies the gradient, which stays. Blocks until the work is done.
  /// Returns the change of state_sums(): the words written less those that were overwritten.
  WordSums update(float rate, float scale) {
    float* const to = parameters;
    float* const first = mean;
    float* const second = square;
    const float* const slopes = gradient;
    return machine_.sum_words(places_.total, [=] ORRERY_DEVICE(u64 i, WordSums& change) {
      change.subtract_value(first[i], kMeanIndex + i);
      change.subtract_value(second[i], kSquareIndex + i);
      change.subtract_value(to[i], i);
      const float slope = slopes[i] * scale;
      first[i] = 0.9f * first[i] + (1.0f - 0.9f) * slope;
      second[i] = 0.999f * second[i] + (1.0f - 0.999f) * slope * slope;
      to[i] -= rate * first[i] / (sqrtf(second[i]) + 1e-8f);
      change.add_value(first[i], kMeanIndex + i);
      change.add_value(second[i], kSquareIndex + i);
      change.add_value(to[i], i);
    });
  }

  /// Reads parameters and moments in the device's memory and returns their checksum.
  WordSums state_sums() {
    const float* const values = parameters;
    const float* const first = mean;
    const float* const second = square;
    return machine_.sum_words(places_.total, [=] ORRERY_DEVICE(u64 i, WordSums& sums) {
      sums.add_value(values[i], i);
      sums.add_value(first[i], kMeanIndex + i);
      sums.add_value(second[i], kSquareIndex + i);
    });
  }

  /// size() values each, in the machine's memory. The caller sets the parameters, and the gradient
  /// to zero.
  float *parameters = nullptr, *gradient = nullptr, *mean = nullptr, *square = nullptr;

  // Public only because CUDA's compiler takes no device lambdas in private functions: parts of
  // accumulate_gradient(), which alone may call them, for the sizes and buffers of its micro-batch.

  struct Normed { float *unit, *out, *inverse; };
  struct Kept {
    Normed attention_in, mlp_in;
    float *qkv, *weights, *mixed, *up, *wide;
  };

  /// Computes kept.out = gain x / rms(x) for each position, and keeps x / rms(x) and 1 / rms(x).
  void normalise(const float* x, const float* gain, const Normed& kept) {
    const u64 rows = shape_.hidden;
    machine_.teams(positions(), [=] ORRERY_DEVICE(u64 at, Team team) {
      const float* const in = x + at * rows;
      float sum = 0;
      for (u64 i = team.lane(); i < rows; i += team.lanes()) sum += in[i] * in[i];
      const float inverse = 1.0f / sqrtf(team.sum(sum) / static_cast<float>(rows) + 1e-5f);
      for (u64 i = team.lane(); i < rows; i += team.lanes()) {
        kept.unit[at * rows + i] = in[i] * inverse;
        kept.out[at * rows + i] = in[i] * inverse * gain[i];
      }
      if (team.lane() == 0) kept.inverse[at] = inverse;
    });
  }

  /// Adds the gradient of the input to `delta`, and that of the gain to `gain_slope`.
  void normalise_backward(const Normed& kept, const float* gain, float* gain_slope,
                          const float* delta_out, float* delta) {
    const u64 rows = shape_.hidden, columns = positions(), chunks = kChunks;
    float* const partial = partial_;
    machine_.for_each(rows * chunks, [=] ORRERY_DEVICE(u64 i) {
      const u64 row = i % rows, chunk = i / rows;
      float sum = 0;
      for (u64 at = columns * chunk / chunks; at < columns * (chunk + 1) / chunks; ++at) {
        sum += delta_out[at * rows + row] * kept.unit[at * rows + row];
      }
      partial[i] = sum;
    });
    machine_.for_each(rows, [=] ORRERY_DEVICE(u64 row) {
      float sum = 0;
      for (u64 chunk = 0; chunk < chunks; ++chunk) sum += partial[chunk * rows + row];
      gain_slope[row] += sum;
    });
    machine_.teams(columns, [=] ORRERY_DEVICE(u64 at, Team team) {
      const u64 start = at * rows;
      float along = 0;
      for (u64 i = team.lane(); i < rows; i += team.lanes()) {
        along += delta_out[start + i] * gain[i] * kept.unit[start + i];
      }
      along = team.sum(along) / static_cast<float>(rows);
      for (u64 i = team.lane(); i < rows; i += team.lanes()) {
        const float inner = delta_out[start + i] * gain[i];
        delta[start + i] += (inner - kept.unit[start + i] * along) * kept.inverse[at];
      }
    });
  }

  /// Rotates queries and keys by their positions; `sign` -1 rotates back.
  void rotate_positions(float* qkv, float sign) {
    const u64 rows = 3 * shape_.hidden, pairs = shape_.hidden, half = shape_.head() / 2;
    const u64 length = length_;
    const float* const turns = turns_;
    machine_.for_each(positions() * pairs, [=] ORRERY_DEVICE(u64 i) {
      const u64 at = i / pairs, pair = i % half, head = i % pairs / half;
      float* const one = qkv + at * rows + head * 2 * half + pair;
      const float* const angle = turns + 2 * (at % length * half + pair);
      const float a = one[0], b = one[half];
      one[0] = a * angle[0] - sign * b * angle[1];
      one[half] = b * angle[0] + sign * a * angle[1];
    });
  }

  /// Replaces the scores of each position by their softmax over this and the earlier positions; 0
  /// for later ones.
  void causal_softmax(float* scores) {
    const u64 length = length_;
    machine_.teams(columns_of_scores(), [=] ORRERY_DEVICE(u64 item, Team team) {
      float* const column = scores + item * length;
      const u64 seen = item % length + 1;
      float most = column[0];
      for (u64 i = team.lane(); i < seen; i += team.lanes()) most = fmaxf(most, column[i]);
      most = team.max(most);
      float sum = 0;
      for (u64 i = team.lane(); i < seen; i += team.lanes()) {
        column[i] = expf(column[i] - most);
        sum += column[i];
      }
      sum = team.sum(sum);
      for (u64 i = team.lane(); i < length; i += team.lanes()) {
        column[i] = i < seen ? column[i] / sum : 0.0f;
      }
    });
  }

  /// `slopes` of the weights become those of the scores before they were scaled.
  void causal_softmax_backward(const float* weights, float* slopes, float scale) {
    const u64 length = length_;
    machine_.teams(columns_of_scores(), [=] ORRERY_DEVICE(u64 item, Team team) {
      const float* const weight = weights + item * length;
      float* const slope = slopes + item * length;
      float along = 0;
      for (u64 i = team.lane(); i < length; i += team.lanes()) along += slope[i] * weight[i];
      along = team.sum(along);
      for (u64 i = team.lane(); i < length; i += team.lanes()) {
        slope[i] = (slope[i] - along) * weight[i] * scale;
      }
    });
  }

  /// Computes wide = x sigmoid(x) y, with x and y the first and second half of `up`.
  void gate(const float* up, float* wide) {
    const u64 rows = shape_.wide;
    machine_.for_each(positions() * rows, [=] ORRERY_DEVICE(u64 i) {
      const float* const in = up + i / rows * 2 * rows + i % rows;
      wide[i] = in[0] / (1.0f + expf(-in[0])) * in[rows];
    });
  }

  /// Computes the gradient of gate()'s input from that of its output: d(x sigmoid(x))/dx = s + x s
  /// (1 - s).
  void gate_backward(const float* up, const float* delta_wide, float* delta_up) {
    const u64 rows = shape_.wide;
    machine_.for_each(positions() * rows, [=] ORRERY_DEVICE(u64 i) {
      const u64 start = i / rows * 2 * rows + i % rows;
      const float x = up[start], other = up[start + rows];
      const float s = 1.0f / (1.0f + expf(-x));
      delta_up[start] = delta_wide[i] * other * (s + x * s * (1.0f - s));
      delta_up[start + rows] = delta_wide[i] * x * s;
    });
  }

  /// Sets the first layer's input to the embeddings of the inputs.
  void embed() {
    const u64 rows = shape_.hidden;
    const float* const table = parameters + places_.embedding;
    const u8* const tokens = inputs_;
    float* const x = x_;
    machine_.for_each(positions() * rows, [=] ORRERY_DEVICE(u64 i) {
      x[i] = table[tokens[i / rows] * rows + i % rows];
    });
  }

  /// Adds the gradient of the embeddings to the table's, row by row, so that sums have one order.
  void embed_backward() {
    const u64 rows = shape_.hidden, columns = positions();
    float* const table = gradient + places_.embedding;
    const u8* const tokens = inputs_;
    const float* const delta = delta_;
    machine_.for_each(shape_.vocabulary * rows, [=] ORRERY_DEVICE(u64 i) {
      const u64 token = i / rows;
      float sum = 0;
      for (u64 at = 0; at < columns; ++at) {
        if (tokens[at] == token) sum += delta[at * rows + i % rows];
      }
      table[i] += sum;
    });
  }

  /// Computes losses, and replaces the logits by their gradient.
  void compute_losses() {
    const u64 rows = shape_.vocabulary;
    float* const logits = logits_;
    const u8* const targets = targets_;
    double* const losses = losses_;
    machine_.teams(positions(), [=] ORRERY_DEVICE(u64 at, Team team) {
      float* const column = logits + at * rows;
      const u64 target = targets[at];
      const float wanted = column[target];
      float most = wanted;
      for (u64 i = team.lane(); i < rows; i += team.lanes()) most = fmaxf(most, column[i]);
      most = team.max(most);
      float sum = 0;
      for (u64 i = team.lane(); i < rows; i += team.lanes()) {
        column[i] = expf(column[i] - most);
        sum += column[i];
      }
      sum = team.sum(sum);
      for (u64 i = team.lane(); i < rows; i += team.lanes()) {
        column[i] = column[i] / sum - (i == target ? 1.0f : 0.0f);
      }
      if (team.lane() == 0) {
        losses[at] = log(static_cast<double>(sum)) - (static_cast<double>(wanted) - most);
      }
    });
  }

 private:
  static constexpr u64 kChunks = 64;

  u64 positions() const { return sequences_ * length_; }
  u64 columns_of_scores() const { return sequences_ * shape_.heads * length_; }

  /// Computes c = alpha a b + beta c for whole tensors.
  void multiply_matrices(u64 m, u64 n, u64 k, const float* a, bool a_turned, const float* b,
                         bool b_turned, float* c, float beta) {
    machine_.multiply_matrices({m, n, k, a, a_turned ? k : m, a_turned, b, b_turned ? n : k,
                                b_turned, c, m, 1.0f, beta, 1, 0, 0, 0});
  }
  /// Computes out = weight x in (rows x columns of the weight; `beta` 1 adds).
  void apply(u64 weight, u64 rows, u64 columns, const float* in, float* out, float beta) {
    multiply_matrices(rows, positions(), columns, parameters + weight, false, in, false, out, beta);
  }
  /// Computes the gradients of the weight and of its input.
  void apply_backward(u64 weight, u64 rows, u64 columns, const float* in, const float* delta_out,
                      float* delta_in) {
    multiply_matrices(rows, columns, positions(), delta_out, false, in, true, gradient + weight, 1);
    multiply_matrices(columns, positions(), rows, parameters + weight, true, delta_out, false,
                      delta_in, 0);
  }

  /// Parts of the blocks of queries, keys and values of one sequence's heads, which begin at rows
  /// 0, H and 2 H.
  enum Part : u64 { kQueries, kKeys, kValues };
  float* heads_of(float* qkv, Part part, u64 sequence) const {
    return qkv + sequence * length_ * 3 * shape_.hidden + part * shape_.hidden;
  }
  float* scores_of(float* scores, u64 sequence) const {
    return scores + sequence * shape_.heads * length_ * length_;
  }
  /// Computes (length x length) = scale x rows_a^T rows_b.
  void multiply_rows(const float* a, u64 a_lead, const float* b, u64 b_lead, float* scores,
                     float scale) {
    const u64 head = shape_.head();
    machine_.multiply_matrices({length_, length_, head, a, a_lead, true, b, b_lead, false, scores,
                                length_, scale, 0.0f, shape_.heads, head, head, length_ * length_});
  }
  /// Computes (head x length) = rows x scores, or rows x scores^T.
  void mix(const float* rows, u64 rows_lead, const float* scores, bool turned, float* out,
           u64 out_lead) {
    const u64 head = shape_.head();
    machine_.multiply_matrices({head, length_, length_, rows, rows_lead, false, scores, length_,
                                turned, out, out_lead, 1.0f, 0.0f, shape_.heads, head,
                                length_ * length_, head});
  }

  void compute_attention(const Kept& kept) {
    const u64 lead = 3 * shape_.hidden;
    const float scale = 1.0f / std::sqrt(static_cast<float>(shape_.head()));
    for (u64 each = 0; each < sequences_; ++each) {
      multiply_rows(heads_of(kept.qkv, kKeys, each), lead, heads_of(kept.qkv, kQueries, each), lead,
            scores_of(kept.weights, each), scale);
    }
    causal_softmax(kept.weights);
    for (u64 each = 0; each < sequences_; ++each) {
      mix(heads_of(kept.qkv, kValues, each), lead, scores_of(kept.weights, each), false,
          kept.mixed + each * length_ * shape_.hidden, shape_.hidden);
    }
  }

  void attend_backward(const Kept& kept, float* delta_mixed) {
    const u64 lead = 3 * shape_.hidden;
    const auto mixed = [&](u64 each) { return delta_mixed + each * length_ * shape_.hidden; };
    for (u64 each = 0; each < sequences_; ++each) {
      mix(mixed(each), shape_.hidden, scores_of(kept.weights, each), true,
          heads_of(deltas_.qkv, kValues, each), lead);
      multiply_rows(heads_of(kept.qkv, kValues, each), lead, mixed(each), shape_.hidden,
            scores_of(deltas_.scores, each), 1.0f);
    }
    const float scale = 1.0f / std::sqrt(static_cast<float>(shape_.head()));
    causal_softmax_backward(kept.weights, deltas_.scores, scale);
    for (u64 each = 0; each < sequences_; ++each) {
      mix(heads_of(kept.qkv, kKeys, each), lead, scores_of(deltas_.scores, each), false,
          heads_of(deltas_.qkv, kQueries, each), lead);
      mix(heads_of(kept.qkv, kQueries, each), lead, scores_of(deltas_.scores, each), true,
          heads_of(deltas_.qkv, kKeys, each), lead);
    }
  }

  void forward() {
    const u64 hidden = shape_.hidden, wide = shape_.wide;
    embed();
    for (u64 layer = 0; layer < shape_.layers; ++layer) {
      const Places::Layer& at = places_.layers[layer];
      const Kept& kept = kept_[layer];
      normalise(x_, parameters + at.attention_norm, kept.attention_in);
      apply(at.qkv, 3 * hidden, hidden, kept.attention_in.out, kept.qkv, 0);
      rotate_positions(kept.qkv, 1);
      compute_attention(kept);
      apply(at.attention_out, hidden, hidden, kept.mixed, x_, 1);
      normalise(x_, parameters + at.mlp_norm, kept.mlp_in);
      apply(at.up, 2 * wide, hidden, kept.mlp_in.out, kept.up, 0);
      gate(kept.up, kept.wide);
      apply(at.down, hidden, wide, kept.wide, x_, 1);
    }
    normalise(x_, parameters + places_.norm, last_);
    apply(places_.output, shape_.vocabulary, hidden, last_.out, logits_, 0);
    compute_losses();
  }

  void backward() {
    const u64 hidden = shape_.hidden, wide = shape_.wide;
    machine_.zero(delta_, 4 * hidden * positions());
    apply_backward(places_.output, shape_.vocabulary, hidden, last_.out, logits_, delta_out_);
    normalise_backward(last_, parameters + places_.norm, gradient + places_.norm, delta_out_,
                       delta_);
    for (u64 layer = shape_.layers; layer-- > 0;) {
      const Places::Layer& at = places_.layers[layer];
      const Kept& kept = kept_[layer];
      apply_backward(at.down, hidden, wide, kept.wide, delta_, deltas_.wide);
      gate_backward(kept.up, deltas_.wide, deltas_.up);
      apply_backward(at.up, 2 * wide, hidden, kept.mlp_in.out, deltas_.up, delta_out_);
      normalise_backward(kept.mlp_in, parameters + at.mlp_norm, gradient + at.mlp_norm, delta_out_,
                         delta_);
      apply_backward(at.attention_out, hidden, hidden, kept.mixed, delta_, delta_out_);
      attend_backward(kept, delta_out_);
      rotate_positions(deltas_.qkv, -1);
      apply_backward(at.qkv, 3 * hidden, hidden, kept.attention_in.out, deltas_.qkv, delta_out_);
      normalise_backward(kept.attention_in, parameters + at.attention_norm,
                         gradient + at.attention_norm, delta_out_, delta_);
    }
    embed_backward();
  }

  /// Divides the arena among the tensors, or only counts its size if `arena` is null. Returns
  /// bytes; every tensor begins at a multiple of 256, as cuBLASLt prefers.
  u64 cut_arena(u8* arena) {
    u64 used = 0;
    const auto take = [&](auto*& piece, u64 count) {
      piece = reinterpret_cast<std::remove_reference_t<decltype(piece)>>(arena + used);
      used += (count * sizeof *piece + 255) / 256 * 256;
    };
    const u64 columns = positions(), hidden = shape_.hidden;
    const u64 scores = columns_of_scores() * length_;
    const auto take_normed = [&](Normed& normed) {
      take(normed.unit, hidden * columns);
      take(normed.out, hidden * columns);
      take(normed.inverse, columns);
    };
    kept_.resize(shape_.layers);
    for (Kept& kept : kept_) {
      take_normed(kept.attention_in);
      take_normed(kept.mlp_in);
      take(kept.qkv, 3 * hidden * columns);
      take(kept.weights, scores);
      take(kept.mixed, hidden * columns);
      take(kept.up, 2 * shape_.wide * columns);
      take(kept.wide, shape_.wide * columns);
    }
    take_normed(last_);
    for (float** each : {&x_, &delta_, &delta_out_}) take(*each, hidden * columns);
    take(deltas_.wide, shape_.wide * columns);
    take(deltas_.up, 2 * shape_.wide * columns);
    take(deltas_.qkv, 3 * hidden * columns);
    take(deltas_.scores, scores);
    take(logits_, shape_.vocabulary * columns);
    take(partial_, kChunks * hidden);
    take(turns_, length_ * shape_.head());
    take(losses_, columns);
    take(inputs_, columns);
    take(targets_, columns);
    return used;
  }

  void make_room(u64 sequences, u64 length) {
    if (sequences == 0 || length == 0) throw std::invalid_argument("a micro-batch has a byte");
    if (sequences == sequences_ && length == length_) return;
    sequences_ = sequences;
    length_ = length;
    const u64 needed = cut_arena(nullptr);
    if (needed > arena_size_) {
      machine_.release(std::exchange(arena_, nullptr));
      arena_size_ = sequences_ = 0;  // should there be no memory
      arena_ = machine_.allocate_bytes(needed);
      arena_size_ = needed;
      sequences_ = sequences;
    }
    cut_arena(static_cast<u8*>(arena_));
    const u64 half = shape_.head() / 2;
    std::vector<float> turns(2 * half * length);
    for (u64 at = 0; at < length; ++at) {
      for (u64 pair = 0; pair < half; ++pair) {
        const double rate = std::pow(10000.0, -2.0 * double(pair) / double(shape_.head()));
        turns[2 * (at * half + pair)] = static_cast<float>(std::cos(rate * double(at)));
        turns[2 * (at * half + pair) + 1] = static_cast<float>(std::sin(rate * double(at)));
      }
    }
    machine_.upload_bytes(turns_, turns.data(), 4 * turns.size());
  }

  Machine& machine_;
  const Shape shape_;
  const Places places_;
  u64 sequences_ = 0, length_ = 0, arena_size_ = 0;
  void* arena_ = nullptr;
  std::vector<Kept> kept_;
  Normed last_{};
  float *x_, *delta_, *delta_out_;
  struct Deltas { float *wide, *up, *qkv, *scores; };
  Deltas deltas_{};
  float *logits_, *partial_, *turns_;
  double* losses_;
  u8 *inputs_, *targets_;
};

}  // namespace orrery::live::gpu
