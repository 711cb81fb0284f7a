#include "traces/workload/step_blocks.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace orrery {
namespace {

using Name = KernelName;

/// A product of activations with weights, and its two gradients.
struct Product {
  Name forward, data_gradient, weight_gradient;
  double m, n, k;
  double batch = 1;  ///< products of one grouped kernel, one per local expert
  bool low = true;   ///< runs in the job's precision
};

/// Kernel launches of a layer's forward pass, and of each half of its backward pass, relative to
/// both.
constexpr double kLaunches = 2.0 / 3;

/// Numbers of layers of each kind in a block.
struct Passes {
  double all, dense, sparse;
  double windowed;  ///< layers of any kind whose attention has a window
};

Passes passes_of(const StageShape& stage, double share) {
  const double sparse = stage.sparse_layers;
  return {stage.layers * share, (stage.layers - sparse) * share, sparse * share,
          stage.windowed_layers * share};
}

/// Adds single kernels of one rank to a block.
class KernelWriter {
 public:
  KernelWriter(Block& block, const RankShape& rank) : block_(block), r_(rank) {}

  void product(Name name, double m, double n, double k, const Product& of, double repeat,
               double out = 0);
  void moved(Name name, double bytes, double repeat) {
    if (bytes <= 0 || repeat <= 0) return;
    Kernel kernel{.kind = Kernel::Kind::memory_bound, .bytes = Bytes{bytes}};
    kernel.repeat = repeat;
    kernel.name = name;
    block_.kernels.push_back(kernel);
  }

 protected:
  Block& block_;
  const RankShape& r_;
};

/// Adds the inner part of attention to a block: scores and values of a rank's heads, and the
/// collectives that bring the whole sequence to them.
class AttentionWriter : public KernelWriter {
 public:
  using KernelWriter::KernelWriter;

  void forward(const Passes& passes);
  void backward(const Passes& passes);

 private:
  void fused(bool backward, const Passes& layers);
  void fused(bool backward, double reach, double layers);
  void batched(Name name, double m, double n, double k, double repeat);
  void ring(Name beside, double times, double layers);
  void swap_heads(double layers);
  double heads() const { return r_.splits_heads ? r_.heads / r_.context : r_.heads; }
  double key_value_heads() const;
  double queries(double keys) const { return r_.splits_heads ? keys : keys / r_.context; }
  double score_count() const {
    return r_.batch * r_.heads * r_.sequence / r_.context * r_.sequence;
  }
};

/// Adds the kernels and collectives of one rank to a block.
class Writer : public KernelWriter {
 public:
  using KernelWriter::KernelWriter;

  void forward(const Passes& layers);
  void backward(const Passes& layers);
  void weights(const Passes& layers);
  void attention_again(const Passes& layers) { AttentionWriter(block_, r_).forward(layers); }
  void data_gradient(const Product& p, double repeat) {
    product(p.data_gradient, p.m, p.k, p.n, p, repeat);
  }
  /// Gradients are added up over the micro-batches: read and written.
  void weight_gradient(const Product& p, double repeat) {
    if (r_.adapter > 0) return;
    product(p.weight_gradient, p.k, p.n, p.m, p, repeat, 2 * r_.gradient);
  }
  void gather_or_scatter(bool gather, double width, double repeat);
  void loss(bool backward);

 private:
  std::vector<std::pair<Product, double>> products(const Passes& layers) const;
  void attention_products(std::vector<std::pair<Product, double>>& out, double layers) const;
  void elementwise(const Passes& layers, double scale);
  void permutations(double layers);
  void mask_products(double dispatches, double combinations, double layers);
  void casts(const Passes& layers, bool backward);
  void adapters(double layers, double times);
  void layer_collectives(const Passes& layers);
  void around(double width, double layers);
  void exchange(double layers);
};

// ---- products -----------------------------------------------------------------------------

void KernelWriter::product(Name name, double m, double n, double k, const Product& of,
                           double repeat, double out) {
  if (repeat <= 0 || m <= 0 || n <= 0 || k <= 0) return;
  const double operand = of.low ? r_.low_element : r_.element;
  Kernel kernel{.kind = Kernel::Kind::gemm, .m = m, .n = n, .k = k, .batch = of.batch};
  kernel.flop = Flop{2 * m * n * k * of.batch};
  kernel.bytes =
      Bytes{((m * k + k * n) * operand + m * n * (out > 0 ? out : r_.element)) * of.batch};
  kernel.repeat = repeat;
  kernel.name = name;
  kernel.low_precision = of.low;
  block_.kernels.push_back(kernel);
}

void Writer::attention_products(std::vector<std::pair<Product, double>>& out, double layers) const {
  const auto add = [&](Product p) { out.emplace_back(p, layers); };
  const double query = r_.heads * r_.head;
  if (r_.is_latent()) {
    const double down = r_.own_tokens();  // latents are small: every tensor rank has them whole
    if (r_.query_rank > 0) {
      add({Name::query_down, Name::query_down_dgrad, Name::query_down_wgrad, down, r_.query_rank,
           r_.hidden});
      add({Name::query_up, Name::query_up_dgrad, Name::query_up_wgrad, r_.tokens, query,
           r_.query_rank});
    } else {
      add({Name::query, Name::query_dgrad, Name::query_wgrad, r_.tokens, query, r_.hidden});
    }
    add({Name::key_value_down, Name::key_value_down_dgrad, Name::key_value_down_wgrad, down,
         r_.key_value_rank + r_.rotary, r_.hidden});
    add({Name::key_value_up, Name::key_value_up_dgrad, Name::key_value_up_wgrad, r_.tokens,
         r_.heads * (r_.head - r_.rotary + r_.value), r_.key_value_rank});
  } else {
    add({Name::qkv, Name::qkv_dgrad, Name::qkv_wgrad, r_.tokens,
         query + r_.kv_heads * (r_.head + r_.value), r_.hidden});
  }
  add({Name::projection, Name::projection_dgrad, Name::projection_wgrad, r_.tokens, r_.hidden,
       r_.heads * r_.value});
}

std::vector<std::pair<Product, double>> Writer::products(const Passes& layers) const {
  std::vector<std::pair<Product, double>> out;
  attention_products(out, layers.all);
  const auto add = [&](double repeat, Product p) {
    if (repeat > 0) out.emplace_back(p, repeat);
  };
  add(layers.dense,
      {Name::mlp_up, Name::mlp_up_dgrad, Name::mlp_up_wgrad, r_.tokens, r_.mlp_up, r_.hidden});
  add(layers.dense, {Name::mlp_down, Name::mlp_down_dgrad, Name::mlp_down_wgrad, r_.tokens,
                     r_.hidden, r_.feed_forward});
  const ExpertShape& e = r_.expert;
  add(layers.sparse, {Name::router, Name::router_dgrad, Name::router_wgrad, r_.tokens / r_.tensor,
                      e.count, r_.hidden, 1, false});
  add(layers.sparse, {Name::expert_up, Name::expert_up_dgrad, Name::expert_up_wgrad, e.rows, e.up,
                      r_.hidden, e.local});
  add(layers.sparse, {Name::expert_down, Name::expert_down_dgrad, Name::expert_down_wgrad, e.rows,
                      r_.hidden, e.feed_forward, e.local});
  if (e.shared_up > 0) {
    add(layers.sparse, {Name::shared_up, Name::shared_up_dgrad, Name::shared_up_wgrad, r_.tokens,
                        e.shared_up, r_.hidden});
    add(layers.sparse, {Name::shared_down, Name::shared_down_dgrad, Name::shared_down_wgrad,
                        r_.tokens, r_.hidden, e.shared_feed_forward});
  }
  return out;
}

// ---- attention ----------------------------------------------------------------------------

/// Scores and values of all heads of a rank; the backward pass is twice the forward pass.
void AttentionWriter::fused(bool backward, double reach, double layers) {
  Kernel kernel{.kind = Kernel::Kind::attention,
                .m = queries(reach),
                .n = reach,
                .k = r_.head,
                .batch = heads() * r_.batch,
                .value = r_.value};
  const double forward = 2 * r_.heads * r_.scored(reach) * (r_.head + r_.value);
  const double query = r_.tokens * r_.heads * r_.head, output = r_.tokens * r_.heads * r_.value;
  const double key_value = r_.tokens * r_.context * key_value_heads() * (r_.head + r_.value);
  kernel.flop = Flop{backward ? 2 * forward : forward};
  // Forward: q, k, v in, o out. Backward: q, k, v, o and its gradient in, three gradients out.
  const double once = query + output + key_value;
  kernel.bytes = Bytes{(backward ? 2 : 1) * once * r_.element};
  kernel.repeat = layers;
  kernel.name = backward ? Name::attention_backward : Name::attention;
  block_.kernels.push_back(kernel);
}

/// Layers without a window, then those with one.
void AttentionWriter::fused(bool backward, const Passes& layers) {
  const double windowed = r_.window > 0 ? layers.windowed : 0;
  fused(backward, r_.reach, layers.all - windowed);
  if (windowed > 0) fused(backward, r_.window, windowed);
}

/// Returns the heads of keys and values that a rank's attention reads; fewer than the ranks that
/// share the heads are copied.
double AttentionWriter::key_value_heads() const {
  return r_.splits_heads ? std::max(1.0, r_.kv_heads / r_.context) : r_.kv_heads;
}

/// One product a head and sequence, in 16 bits.
void AttentionWriter::batched(Name name, double m, double n, double k, double repeat) {
  const Product of{name, name, name, m, n, k, heads() * r_.batch, false};
  product(name, m, n, k, of, repeat);
}

void AttentionWriter::forward(const Passes& passes) {
  const double layers = passes.all;
  ring(r_.flash ? Name::attention : Name::attention_scores, 1, layers);
  if (r_.flash) return fused(false, passes);
  const double rows = queries(r_.sequence), keys = r_.sequence;
  batched(Name::attention_scores, rows, keys, r_.head, layers);
  moved(Name::softmax, score_count() * 2 * r_.element, layers);
  moved(Name::dropout, score_count() * (2 * r_.element + 1), layers);  // including the mask
  batched(Name::attention_values, rows, r_.value, keys, layers);
}

void AttentionWriter::backward(const Passes& passes) {
  const double layers = passes.all;
  // Keys and values go round again, their gradients with them.
  ring(r_.flash ? Name::attention_backward : Name::attention_values_dgrad, 2, layers);
  if (r_.flash) return fused(true, passes);
  const double rows = queries(r_.sequence), keys = r_.sequence;
  batched(Name::attention_values_dgrad, rows, keys, r_.value, layers);
  batched(Name::attention_values_wgrad, keys, r_.value, rows, layers);
  moved(Name::dropout, score_count() * (2 * r_.element + 1), layers);
  moved(Name::softmax, score_count() * 3 * r_.element, layers);
  batched(Name::attention_scores_dgrad, rows, r_.head, keys, layers);
  batched(Name::attention_scores_wgrad, keys, r_.head, rows, layers);
}

/// Queries, keys, values and results change between shares of the sequence with all heads and
/// shares of the heads with the whole sequence: four all-to-alls, which attention waits for
/// (arXiv:2309.14509, section 3). The backward pass has those of the gradients.
void AttentionWriter::swap_heads(double layers) {
  const double key_value = key_value_heads() * r_.context;
  for (const double width : {r_.heads * r_.head, key_value * r_.head, key_value * r_.value,
                             r_.heads * r_.value}) {
    block_.collectives.push_back({BlockCollective::Kind::all_to_all,
                                  Bytes{r_.tokens * width * r_.element}, layers,
                                  Communicator::context});
  }
}

/// Keys and values of the whole sequence pass each context rank, `times` over.
void AttentionWriter::ring(Name beside, double times, double layers) {
  if (r_.context <= 1 || layers <= 0) return;
  if (r_.splits_heads) return swap_heads(layers);
  const double bytes =
      times * r_.batch * r_.sequence * r_.kv_heads * (r_.head + r_.value) * r_.element;
  block_.collectives.push_back(
      {BlockCollective::Kind::ring_pass, Bytes{bytes}, layers, Communicator::context, beside});
}

// ---- everything through memory --------------------------------------------------------------

/// Norms, rotary embedding, activation and residuals of one layer; passes are reads and writes.
void Writer::elementwise(const Passes& layers, double scale) {
  const double row = r_.own_tokens() * r_.hidden * r_.element;
  const double mask = r_.flash ? 0 : r_.own_tokens() * r_.hidden;  // dropout, with the residual
  moved(Name::norm, scale * 2 * row, 2 * layers.all);
  moved(Name::residual, 3 * row + mask, 2 * layers.all);
  if (r_.is_latent()) {
    const double latents = r_.own_tokens() * (r_.query_rank + r_.key_value_rank);
    moved(Name::norm, scale * 2 * latents * r_.element, layers.all);
    // Queries and keys are put together from their plain and their rotated part.
    moved(Name::rotary, 2 * r_.tokens * 2 * r_.heads * r_.head * r_.element, layers.all);
  } else {
    moved(Name::rotary, 2 * r_.tokens * (r_.heads + r_.kv_heads) * r_.head * r_.element,
          layers.all);
  }
  const auto activation = [&](double rows, double width, double repeat) {
    moved(Name::activation, scale * rows * width * r_.element, repeat);
  };
  const ExpertShape& e = r_.expert;
  activation(r_.tokens, r_.mlp_up + r_.feed_forward, layers.dense);
  activation(e.rows * e.local, e.up + e.feed_forward, layers.sparse);
  activation(r_.tokens, e.shared_up + e.shared_feed_forward, layers.sparse);
  permutations(layers.sparse);
}

/// Copies of tokens are put in the order of their experts, again where they arrive, and back;
/// where they left, `top_k` results become one token. Routing reads and writes its scores in fp32.
void Writer::permutations(double layers) {
  if (layers <= 0) return;
  const ExpertShape& e = r_.expert;
  const double tokens = r_.tokens / r_.tensor;
  if (e.slots > 0) return moved(Name::routing, 4 * tokens * e.count * 4.0, layers);
  const double at_home = tokens * (1 + e.top_k) * 2, at_expert = 4 * e.rows * e.local;
  moved(Name::permute, (at_home + at_expert) * r_.hidden * r_.element, layers);
  moved(Name::routing, 4 * tokens * e.count * 4.0, layers);
}

/// Tokens that one-hot masks over the tokens of a sequence bring into the experts' slots, and their
/// results back: products of slots x tokens x hidden, whose ranks share the hidden size.
void Writer::mask_products(double dispatches, double combinations, double layers) {
  const double slots = r_.sequence / r_.context * r_.expert.slots;
  if (slots <= 0 || layers <= 0) return;
  const double tokens = r_.sequence / r_.context, width = r_.hidden / r_.tensor;
  const Product of{Name::routing, Name::routing, Name::routing, slots, width, tokens,
                   r_.batch, false};
  product(Name::routing, slots, width, tokens, of, dispatches * layers);
  product(Name::routing, tokens, width, slots, of, combinations * layers);
}

/// Below 16 bits every operand that is an activation or its gradient is converted on its way, as
/// it is and transposed for the weights' gradient. Weights are converted once a step.
void Writer::casts(const Passes& layers, bool backward) {
  if (r_.low_element >= r_.element) return;
  for (const auto& [p, repeat] : products(layers)) {
    if (!p.low) continue;
    const double numbers = p.m * (backward ? p.n : p.k) * p.batch;
    moved(Name::cast, numbers * (r_.element + 2 * r_.low_element), repeat);
  }
}

/// Each adapted product (query, key and value together; the projection) has two thin ones beside
/// it, in 16 bits, and each of those two gradients.
void Writer::adapters(double layers, double times) {
  if (r_.adapter == 0) return;
  std::vector<std::pair<Product, double>> adapted;
  attention_products(adapted, layers);
  for (auto& [p, repeat] : adapted) {
    p.low = false;
    product(Name::adapter, p.m, r_.adapter, p.k, p, times * repeat);
    product(Name::adapter, p.m, p.n, r_.adapter, p, times * repeat);
  }
}

// ---- collectives inside the block -----------------------------------------------------------

/// Moves data into (`gather`) or out of a part that the tensor-parallel ranks share. Without
/// sequence parallelism the gathered data exist already, and results are summed everywhere.
void Writer::gather_or_scatter(bool gather, double width, double repeat) {
  if (r_.tensor <= 1 || repeat <= 0 || (gather && !r_.split_tokens)) return;
  const auto split =
      gather ? BlockCollective::Kind::all_gather : BlockCollective::Kind::reduce_scatter;
  BlockCollective made{r_.split_tokens ? split : BlockCollective::Kind::all_reduce,
                       Bytes{r_.tokens * width * r_.element}, repeat};
  made.hidden = r_.hidden_share;
  block_.collectives.push_back(made);
}

void Writer::around(double width, double layers) {
  gather_or_scatter(true, width, layers);
  gather_or_scatter(false, width, layers);
}

/// Around attention and around the MLP. The backward pass mirrors it; its second gather, of the
/// layer's input for the weight gradient, runs beside a GEMM and costs nothing here.
void Writer::layer_collectives(const Passes& layers) {
  if (r_.gathered_width() == r_.hidden) {
    around(r_.hidden, layers.all + layers.dense);
  } else {
    gather_or_scatter(true, r_.gathered_width(), layers.all);
    gather_or_scatter(false, r_.hidden, layers.all);
    around(r_.hidden, layers.dense);
  }
  if (layers.sparse <= 0) return;
  if (r_.expert.shared_up > 0) around(r_.hidden, layers.sparse);
  // Ranks that split an expert all see its tokens.
  if (r_.expert.tensor > 1) around(r_.expert.top_k * r_.hidden, layers.sparse);
  exchange(layers.sparse);
}

/// Tokens go to their experts and come back.
void Writer::exchange(double layers) {
  if (r_.expert.local >= r_.expert.count) return;
  BlockCollective made{BlockCollective::Kind::all_to_all,
                       Bytes{r_.expert.sent * r_.hidden * r_.element}, 2 * layers,
                       Communicator::expert};
  made.hidden = r_.hidden_exchange;
  block_.collectives.push_back(made);
}

// ---- passes ---------------------------------------------------------------------------------

void Writer::forward(const Passes& layers) {
  for (const auto& [p, repeat] : products(layers)) product(p.forward, p.m, p.n, p.k, p, repeat);
  AttentionWriter(block_, r_).forward(layers);
  mask_products(1, 1, layers.sparse);
  elementwise(layers, 1);
  casts(layers, false);
  adapters(layers.all, 1);
  layer_collectives(layers);
  block_.layers += layers.all;
  block_.expert_layers += layers.sparse;
  block_.launches += kLaunches * layers.all;
}

void Writer::backward(const Passes& layers) {
  for (const auto& [p, repeat] : products(layers)) data_gradient(p, repeat);
  AttentionWriter(block_, r_).backward(layers);
  mask_products(1, 2, layers.sparse);  // the mask that combines has weights with gradients
  elementwise(layers, 1.5);  // the saved input is read beside the gradient
  casts(layers, true);
  adapters(layers.all, 2);
  layer_collectives(layers);
  block_.layers += layers.all;
  block_.expert_layers += layers.sparse;
  block_.launches += kLaunches * layers.all;
}

void Writer::weights(const Passes& layers) {
  block_.launches += kLaunches * layers.all;
  for (const auto& [p, repeat] : products(layers)) weight_gradient(p, repeat);
}

Product output_projection(const RankShape& r) {
  return {Name::vocabulary,
          Name::vocabulary_dgrad,
          Name::vocabulary_wgrad,
          r.tokens,
          r.vocabulary,
          r.hidden,
          1,
          false};
}

/// Cross-entropy as frameworks without a fused kernel do it, each line a pass over fp32 logits:
/// forward converts, finds the maximum, subtracts it, takes the exponential, sums, divides;
/// backward scales the saved softmax and converts it back.
double loss_bytes(const RankShape& r) {
  return r.tokens * r.vocabulary * ((r.element + 4) + 4 + 8 + 8 + 4 + 8.0);
}
double loss_backward_bytes(const RankShape& r) {
  return r.tokens * r.vocabulary * (8 + (4 + r.element));
}

void Writer::loss(bool backward) {
  moved(backward ? Name::loss_backward : Name::loss,
        backward ? loss_backward_bytes(r_) : loss_bytes(r_), 1);
  block_.kernels.back().m = r_.tokens * r_.vocabulary;  // logits
}

}  // namespace

Block forward_block(const RankShape& r, const StageShape& stage) {
  Block block;
  Writer writer(block, r);
  if (stage.first) {
    writer.moved(Name::embedding, 2 * r.tokens * r.hidden * r.element, 1);
    writer.gather_or_scatter(false, r.hidden, 1);
  }
  writer.forward(passes_of(stage, 1));
  if (stage.last) {
    const Product p = output_projection(r);
    writer.product(p.forward, p.m, p.n, p.k, p, 1);
    writer.loss(false);
    writer.gather_or_scatter(true, r.hidden, 1);
  }
  return block;
}

Block backward_block(const RankShape& r, const StageShape& stage, double share, bool head,
                     bool table, BackwardPart part) {
  Block block;
  Writer writer(block, r);
  const Passes layers = passes_of(stage, share);
  const Passes again = passes_of(stage, share * r.again);
  if (part != BackwardPart::weight) {
    if (head) writer.loss(true);
    if (head) {
      writer.data_gradient(output_projection(r), 1);
      writer.gather_or_scatter(false, r.hidden, 1);
    }
    if (r.recompute == Recompute::full) writer.forward(again);
    if (r.recompute == Recompute::selective) writer.attention_again(again);
    writer.backward(layers);
  }
  if (part != BackwardPart::input) {
    if (head) writer.weight_gradient(output_projection(r), 1);
    writer.weights(layers);
    if (table) {
      writer.moved(Name::embedding_backward, 3 * r.tokens * r.hidden * r.element, 1);
      writer.gather_or_scatter(true, r.hidden, 1);
    }
  }
  return block;
}

Block optimizer_block(double parameters, double element, double gradient) {
  Block block;
  // Read the gradient; read and write both moments; read and write the fp32 weights; with bf16
  // weights write those as well.
  const double per_parameter =
      (gradient > 0 ? gradient : element) + 16 + 8 + (element < 4 ? element : 0);
  Kernel kernel{.kind = Kernel::Kind::memory_bound, .bytes = Bytes{parameters * per_parameter}};
  kernel.name = Name::adam;
  kernel.m = parameters;
  block.kernels.push_back(kernel);
  return block;
}

}  // namespace orrery
