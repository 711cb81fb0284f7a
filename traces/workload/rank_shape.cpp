#include "traces/workload/rank_shape.hpp"

#include <algorithm>
#include <vector>

#include "traces/workload/layer_weights.hpp"
#include "traces/workload/model.hpp"
#include "traces/workload/precision.hpp"
#include "traces/workload/stacks.hpp"

namespace orrery {
namespace {

/// Bytes of an operand: micro-scaled formats carry a scale of a byte for each 32 (OCP MX) or 16
/// (NVFP4) numbers.
double operand_bytes(JobPrecision precision, double element) {
  switch (precision) {
    case JobPrecision::fp8: return 1;
    case JobPrecision::mxfp8: return 1 + 1.0 / 32;
    case JobPrecision::nvfp4: return 0.5 + 1.0 / 16;
    default: return element;
  }
}

/// Returns the busiest rank's load over the mean as routed.
double routed_load(const Job& job) {
  const Experts& experts = job.model().experts();
  if (routing_of(experts) == ExpertRouting::natural && experts.skew() <= 1) {
    return stack_of(job).natural_load();
  }
  return experts.skew();
}

/// Returns the busiest rank's load over the mean; experts drop the load above their capacity, and
/// padded experts always have the load of their capacity.
double load_of(const Job& job, double ranks) {
  const Experts& experts = job.model().experts();
  if (experts.padded()) return experts.capacity();
  const double skew = std::min(std::max(1.0, routed_load(job)), std::max(1.0, ranks));
  return experts.has_capacity() ? std::min(skew, experts.capacity()) : skew;
}

ExpertShape expert_shape(const Job& job, double tokens) {
  const Experts& experts = job.model().experts();
  const Layout& layout = job.layout();
  const double ranks = std::max(1u, layout.expert());
  const double tensor = std::max(1u, layout.tensor());
  ExpertShape shape;
  shape.count = experts.count();
  shape.top_k = experts.top_k();
  shape.local = shape.count / ranks;
  shape.tensor = expert_tensor(layout);
  const double load = load_of(job, ranks);
  if (dispatch_of(experts) == ExpertDispatch::einsum) {
    shape.slots = experts.top_k() * experts.capacity();
  }
  shape.rows = load * tokens * shape.top_k * shape.tensor / tensor / shape.local;
  shape.sent = load * tokens / tensor * shape.top_k;
  const double inner = expert_feed_forward(job.model());
  const double matrices = job.model().gated() ? 2 : 1;
  shape.feed_forward = inner / shape.tensor;
  shape.up = matrices * shape.feed_forward;
  shape.shared_feed_forward = experts.shared() * inner / tensor;
  shape.shared_up = matrices * shape.shared_feed_forward;
  return shape;
}

/// Mean length of the document that a token is in: E[l^2] / E[l], at most the sequence.
double reach_of(const Job& job) {
  const double sequence = job.sequence_length();
  if (!job.has_documents()) return sequence;
  const double cv = job.documents().cv();
  return std::min(sequence, job.documents().mean_length() * (1 + cv * cv));
}

/// Returns the tokens of a window as RankShape::scored() counts them, which halves them if later
/// tokens are masked: twice the mean of min(i, size) over the tokens i of `reach` then. Returns 0
/// if no layer has a window shorter than `reach`.
double window_of(const Job& job, double reach, bool causal) {
  if (!job.model().has_window()) return 0;
  const double size = job.model().window().size();
  if (size >= reach) return 0;
  return causal ? size * (2 - size / reach) : size;
}

/// The stage of each layer by cost, and the one that the output projection falls to. A stage is
/// full once the multiply-adds so far reach its share of all; the layer that reaches it still
/// belongs to it (nanotron, models/base.py: build_model).
std::vector<std::uint32_t> stages_by_cost(const Job& job) {
  const Model& model = job.model();
  const double hidden = model.hidden();
  const double layer = hidden * (4.0 * model.heads() * head_size(model) +
                                 (model.gated() ? 3.0 : 2.0) * model.feed_forward());
  const double output = hidden * model.vocabulary();
  const double share = (model.layers() * layer + output) / job.layout().pipeline();
  std::vector<std::uint32_t> stages;
  std::uint32_t at = 0;
  double sum = 0;
  for (std::uint32_t i = 0; i < model.layers(); ++i) {
    stages.push_back(at);
    sum += layer;
    if (sum >= share * (at + 1) * (1 - 1e-9) && at + 1 < job.layout().pipeline()) ++at;
  }
  stages.push_back(at);
  return stages;
}

/// Output and loss belong to the last stage, however few layers it has: steps of the measured
/// pipelines take as long as their largest stage of layers, on one node and on many, so no logits
/// travel between stages.
StageShape stage_by_cost(const Job& job, std::uint32_t stage) {
  const std::vector<std::uint32_t> stages = stages_by_cost(job);
  const auto layers = stages.end() - 1;
  const auto [first, end] = std::equal_range(stages.begin(), layers, stage);
  StageShape shape = layers_from(job, static_cast<std::uint32_t>(first - stages.begin()),
                                 static_cast<std::uint32_t>(end - first));
  shape.first = stage == 0;
  shape.last = stage + 1 == job.layout().pipeline();
  return shape;
}

}  // namespace

StageShape layers_from(const Job& job, std::uint32_t first, std::uint32_t count) {
  const Model& model = job.model();
  const auto among = [&](std::uint32_t (*before)(const Model&, std::uint32_t)) {
    return before(model, first + count) - before(model, first);
  };
  return {.layers = count,
          .sparse_layers = among(sparse_before),
          .windowed_layers = among(windowed_before),
          .begin = first};
}

std::uint32_t expert_tensor(const Layout& layout) {
  if (layout.expert_tensor() > 0) return layout.expert_tensor();
  return layout.expert() > 1 ? 1 : std::max(1u, layout.tensor());
}

/// Behind the output only its conversion and the loss are left to go to a stage of their own.
std::uint32_t stages_left_empty(const Job& job) {
  if (balance_of(job.layout()) != LayerBalance::cost) return 0;
  const std::uint32_t used = stages_by_cost(job).back() + 3;
  return job.layout().pipeline() - std::min(used, job.layout().pipeline());
}

std::uint32_t most_parts(const Model& model) { return model.layers() + 2; }

/// The last part has no layer beside output and loss with more parts than layers, and with one
/// more the first part has none beside the embedding.
StageShape stage_shape(const Job& job, std::uint32_t stage, std::uint32_t chunk) {
  if (job.layout().pipeline() > 1 && balance_of(job.layout()) == LayerBalance::cost) {
    return stage_by_cost(job, stage);
  }
  const std::uint32_t parts = job.layout().pipeline() * std::max(1u, job.layout().chunks());
  const std::uint32_t layers = job.model().layers();
  const std::uint32_t part = chunk * job.layout().pipeline() + stage;
  const std::uint32_t each = layers / parts, rest = layers % parts;
  const std::uint32_t empty = parts > layers + 1 ? 1u : 0u;  // parts before the first layer
  const std::uint32_t begin = part - std::min(part, empty), end = part + 1 - empty;
  const auto layers_before = [&](std::uint32_t n) { return n * each + std::min(n, rest); };
  const std::uint32_t first_layer = layers_before(begin);
  const std::uint32_t count = layers_before(end) - first_layer;
  StageShape shape = layers_from(job, first_layer, count);
  shape.first = part == 0;
  shape.last = part + 1 == parts;
  return shape;
}

RankShape::RankShape(const Job& job) {
  const Model& model = job.model();
  const Layout& layout = job.layout();
  tensor = std::max(1u, layout.tensor());
  context = std::max(1u, layout.context());
  splits_heads = context > 1 && context_kind_of(layout) == ContextKind::ulysses;
  sequence = job.sequence_length();
  batch = job.micro_batch();
  tokens = sequence * batch / context;
  hidden = model.hidden();
  heads = model.heads() / tensor;
  kv_heads = std::max(1.0, model.kv_heads() / tensor);
  head = head_size(model);
  value = head;
  if (model.has_latent_attention()) {
    const LatentAttention& attention = model.latent_attention();
    query_rank = attention.query_rank();
    key_value_rank = attention.key_value_rank();
    rotary = attention.rotary();
    head = attention.plain() + rotary;
    value = attention.value();
    kv_heads = heads;  // every head has keys and values of its own once they are expanded
  }
  reach = reach_of(job);
  gated = model.gated();
  tied = model.tied_embeddings();
  feed_forward = model.feed_forward() / tensor;
  mlp_up = feed_forward * (gated ? 2 : 1);
  vocabulary = model.vocabulary() / tensor;
  if (model.has_experts()) expert = expert_shape(job, tokens);
  const JobPrecision precision = precision_of(job);
  element = precision == JobPrecision::fp32 ? 4 : 2;
  low_element = operand_bytes(precision, element);
  gradient = job.has_gradient_bytes() ? job.gradient_bytes() : element;
  hidden_share = job.overlaps().tensor();
  hidden_exchange = job.overlaps().expert();
  recompute = recompute_of(job);
  again = recompute == Recompute::none ? 0 : job.has_recompute_share() ? job.recompute_share() : 1;
  adapter = job.adapter_rank();
  flash = attention_of(job) != Attention::unfused;
  causal = !job.has_causal() || job.causal();
  window = window_of(job, reach, causal);
  split_tokens = tensor > 1 && layout.sequence_parallel();
}

double RankShape::gathered_width() const {
  if (!is_latent() || query_rank == 0) return hidden;
  return query_rank + key_value_rank + rotary;
}

double RankShape::expert_parameters(const StageShape& stage) const {
  return stage.sparse_layers * expert.local * hidden * (expert.up + expert.feed_forward);
}

double RankShape::parameters(const StageShape& stage) const {
  double attention = hidden * (heads * head + kv_heads * (head + value)) + heads * value * hidden;
  if (is_latent()) {
    const double query = query_rank > 0 ? query_rank * (hidden + 1) + query_rank * heads * head
                                        : hidden * heads * head;
    const double keys = hidden * (key_value_rank + rotary) + key_value_rank +
                        key_value_rank * heads * (head - rotary + value);
    attention = query + keys + heads * value * hidden;
  }
  const double norms = 2 * hidden;
  const double dense = hidden * (mlp_up + feed_forward);
  const double sparse = hidden * (expert.count + expert.shared_up + expert.shared_feed_forward);
  double sum = stage.layers * (attention + norms) + (stage.layers - stage.sparse_layers) * dense +
               stage.sparse_layers * sparse + expert_parameters(stage);
  if (stage.first && !(tied && stage.last)) sum += vocabulary * hidden;
  if (stage.last) sum += vocabulary * hidden + hidden;
  return sum;
}

double RankShape::trained(const StageShape& stage) const {
  if (adapter == 0) return parameters(stage);
  const double wide = hidden + heads * head + kv_heads * (head + value);  // width of qkv
  return stage.layers * adapter * (wide + hidden + heads * value);
}

}  // namespace orrery
