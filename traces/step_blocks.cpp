#include "traces/step_blocks.hpp"

#include <algorithm>

namespace orrery {
namespace {

Kernel gemm(const char* name, double m, double n, double k, double element, double repeat) {
  Kernel kernel{.kind = Kernel::Kind::gemm, .m = m, .n = n, .k = k};
  kernel.flop = Flop{2 * m * n * k};
  kernel.bytes = Bytes{(m * k + k * n + m * n) * element};
  kernel.repeat = repeat;
  kernel.name = name;
  return kernel;
}

Kernel memory_bound(const char* name, double bytes, double repeat) {
  Kernel kernel{.kind = Kernel::Kind::memory_bound, .bytes = Bytes{bytes}};
  kernel.repeat = repeat;
  kernel.name = name;
  return kernel;
}

/// Scores and values of all heads of a rank: 4 b s^2 h, half of it under the causal mask.
Kernel attention(const RankShape& r, bool backward, double repeat) {
  const double heads = r.heads * r.batch;
  Kernel kernel{.kind = Kernel::Kind::attention,
                .m = r.sequence, .n = r.sequence, .k = r.head, .batch = heads};
  const double forward = 2 * heads * r.sequence * r.sequence * r.head;
  const double query = r.tokens * r.heads * r.head;
  const double key_value = 2 * r.tokens * r.kv_heads * r.head;
  kernel.flop = Flop{backward ? 2 * forward : forward};
  // Forward: q, k, v in, o out. Backward: q, k, v, o and its gradient in, three gradients out.
  kernel.bytes = Bytes{(backward ? 4 * query + 2 * key_value : 2 * query + key_value) * r.element};
  kernel.repeat = repeat;
  kernel.name = backward ? "attention_backward" : "attention";
  return kernel;
}

struct GemmShape {
  const char *forward, *data_gradient, *weight_gradient;
  double n, k;
};

std::vector<GemmShape> layer_gemms(const RankShape& r) {
  const double query = r.heads * r.head;
  return {{"qkv", "qkv_dgrad", "qkv_wgrad", query + 2 * r.kv_heads * r.head, r.hidden},
          {"projection", "projection_dgrad", "projection_wgrad", r.hidden, query},
          {"mlp_up", "mlp_up_dgrad", "mlp_up_wgrad", r.mlp_up, r.hidden},
          {"mlp_down", "mlp_down_dgrad", "mlp_down_wgrad", r.hidden, r.feed_forward}};
}

void add_backward_gemm(Block& block, const RankShape& r, const GemmShape& g, double repeat) {
  block.kernels.push_back(gemm(g.data_gradient, r.tokens, g.k, g.n, r.element, repeat));
  block.kernels.push_back(gemm(g.weight_gradient, g.k, g.n, r.tokens, r.element, repeat));
}

/// Norms, rotary embedding, activation and residuals of one layer; passes are reads and writes.
void add_elementwise(Block& block, const RankShape& r, double layers, double scale) {
  const double row = r.own_tokens() * r.hidden * r.element;
  const double rotated = r.tokens * (r.heads + r.kv_heads) * r.head * r.element;
  const double activated = r.tokens * (r.mlp_up + r.feed_forward) * r.element;
  block.kernels.push_back(memory_bound("norm", scale * 2 * row, 2 * layers));
  block.kernels.push_back(memory_bound("rotary", 2 * rotated, layers));
  block.kernels.push_back(memory_bound("activation", scale * activated, layers));
  block.kernels.push_back(memory_bound("residual", 3 * row, 2 * layers));
}

void add_collective(Block& block, const RankShape& r, BlockCollective::Kind kind, double repeat) {
  block.collectives.push_back({kind, Bytes{r.tokens * r.hidden * r.element}, repeat});
}

/// Around attention and around the MLP: gather before and scatter after with sequence
/// parallelism, one all-reduce each without. The backward pass mirrors it; its second gather, of
/// the layer's input for the weight gradient, runs beside a GEMM and costs nothing here.
void add_layer_collectives(Block& block, const RankShape& r, double layers) {
  if (r.tensor <= 1) return;
  if (r.split_tokens) {
    add_collective(block, r, BlockCollective::Kind::all_gather, 2 * layers);
    add_collective(block, r, BlockCollective::Kind::reduce_scatter, 2 * layers);
  } else {
    add_collective(block, r, BlockCollective::Kind::all_reduce, 2 * layers);
  }
}

/// Into the output projection (`gather`) or out of the embedding; the backward pass swaps them.
/// Without sequence parallelism what would be gathered is there already.
void add_end_collective(Block& block, const RankShape& r, bool gather) {
  if (r.tensor <= 1 || (gather && !r.split_tokens)) return;
  const auto split = gather ? BlockCollective::Kind::all_gather
                            : BlockCollective::Kind::reduce_scatter;
  add_collective(block, r, r.split_tokens ? split : BlockCollective::Kind::all_reduce, 1);
}

GemmShape output_projection(const RankShape& r) {
  return {"vocabulary", "vocabulary_dgrad", "vocabulary_wgrad", r.vocabulary, r.hidden};
}

/// The loss goes over fp32 logits.
double loss_bytes(const RankShape& r) { return r.tokens * r.vocabulary * (r.element + 2 * 4.0); }

}  // namespace

RankShape::RankShape(const Job& job) {
  const Model& model = job.model();
  tensor = job.layout().tensor();
  sequence = job.sequence_length();
  batch = job.micro_batch();
  tokens = sequence * batch;
  hidden = model.hidden();
  head = hidden / model.heads();
  heads = model.heads() / tensor;
  kv_heads = std::max(1.0, model.kv_heads() / tensor);
  gated = model.gated();
  feed_forward = model.feed_forward() / tensor;
  mlp_up = feed_forward * (gated ? 2 : 1);
  vocabulary = model.vocabulary() / tensor;
  element = job.precision() == "fp32" ? 4 : 2;
  split_tokens = tensor > 1 && job.layout().sequence_parallel();
}

double RankShape::parameters(const StageShape& stage) const {
  double layer = 2 * hidden;  // the two norms
  for (const GemmShape& g : layer_gemms(*this)) layer += g.n * g.k;
  double sum = stage.layers * layer;
  if (stage.first) sum += vocabulary * hidden;
  if (stage.last) sum += vocabulary * hidden + hidden;
  return sum;
}

Block forward_block(const RankShape& r, const StageShape& stage) {
  Block block;
  const double layers = stage.layers;
  if (stage.first) {
    block.kernels.push_back(memory_bound("embedding", 2 * r.tokens * r.hidden * r.element, 1));
    add_end_collective(block, r, false);
  }
  for (const GemmShape& g : layer_gemms(r)) {
    block.kernels.push_back(gemm(g.forward, r.tokens, g.n, g.k, r.element, layers));
  }
  block.kernels.push_back(attention(r, false, layers));
  add_elementwise(block, r, layers, 1);
  add_layer_collectives(block, r, layers);
  if (stage.last) {
    const GemmShape g = output_projection(r);
    block.kernels.push_back(gemm(g.forward, r.tokens, g.n, g.k, r.element, 1));
    block.kernels.push_back(memory_bound("loss", loss_bytes(r), 1));
    add_end_collective(block, r, true);
  }
  return block;
}

Block backward_block(const RankShape& r, const StageShape& stage, double share, bool head,
                     bool table) {
  Block block;
  const double layers = stage.layers * share;
  if (head) {
    block.kernels.push_back(memory_bound("loss_backward", loss_bytes(r), 1));
    add_backward_gemm(block, r, output_projection(r), 1);
    add_end_collective(block, r, false);
  }
  for (const GemmShape& g : layer_gemms(r)) add_backward_gemm(block, r, g, layers);
  block.kernels.push_back(attention(r, true, layers));
  add_elementwise(block, r, layers, 1.5);  // the saved input is read beside the gradient
  add_layer_collectives(block, r, layers);
  if (table) {
    const double bytes = 3 * r.tokens * r.hidden * r.element;
    block.kernels.push_back(memory_bound("embedding_backward", bytes, 1));
    add_end_collective(block, r, true);
  }
  return block;
}

Block optimizer_block(double parameters, double element) {
  Block block;
  // Read the gradient; read and write both moments; read and write the fp32 weights; with bf16
  // weights write those as well.
  const double per_parameter = element + 16 + 8 + (element < 4 ? element : 0);
  block.kernels.push_back(memory_bound("adam", parameters * per_parameter, 1));
  return block;
}

}  // namespace orrery
