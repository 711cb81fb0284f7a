// GPU memory of a step, and the model's own FLOPs.
#include <algorithm>
#include <array>
#include <string_view>

#include "core/error.hpp"
#include "traces/chakra/recorded_op.hpp"
#include "traces/workload/model.hpp"
#include "traces/workload/rank_shape.hpp"
#include "traces/workload/recorded_step.hpp"
#include "traces/workload/sharding.hpp"
#include "traces/workload/stacks.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery {
namespace {

constexpr double kMiB = 1ull << 20;
/// Memory of a process besides its tensors. CUDA's context and modules: nvidia-smi shows 500 to 700
/// MiB for an idle PyTorch process on A100 and H100. NCCL's buffers: 4 MiB for each of some 16
/// channels and both directions of a communicator (NCCL_BUFFSIZE, NCCL's documentation). cuBLAS: 32
/// MiB of workspace from Hopper on (its documentation).
constexpr double kContext = 640 * kMiB, kCommunicator = 2 * 16 * 4 * kMiB;
/// Fraction that the allocator holds beyond the tensors of a step: rounded so that of the layouts
/// that were really run at most one in a hundred is predicted not to fit (docs/accuracy.md,
/// memory).
constexpr double kFragments = 0.1;

/// Allocation of the memory of a step by a framework.
struct Allocation {
  std::string_view stack;  ///< name in traces/catalog/stacks.yaml
  bool planned = false;    ///< true: XLA plans all buffers before the run, and none is left over
};
/// Stacks that store weights once, in fp32, from which products gather their 16-bit copies, and
/// whose gradients are allocated in fp32 when the backward pass makes them, in memory that the
/// activations leave: PyTorch's FSDP with mixed precision and zero_grad's default of None, and XLA.
/// Other stacks have 16-bit weights beside the fp32 ones, and buffers for all gradients from the
/// start (Megatron-Core's DistributedDataParallel, DeepSpeed, nanotron's accumulator).
constexpr std::array kLateGradients = {Allocation{"composer-fsdp"}, Allocation{"pytorch-fsdp"},
                                       Allocation{"prime-rl"}, Allocation{"pytorch-eager"},
                                       Allocation{"torchtitan"}, Allocation{"maxtext", true},
                                       Allocation{"paxml", true}};

const Allocation* late_gradients_of(const SoftwareStack& stack) {
  for (const Allocation& each : kLateGradients) {
    if (each.stack == stack.name() || each.stack == stack.kin()) return &each;
  }
  return nullptr;
}

bool is_planned(const SoftwareStack& stack) {
  const Allocation* found = late_gradients_of(stack);
  return found != nullptr && found->planned;
}

bool is_builtin(const Job& job) { return !job.model().builtin().empty(); }

BuiltinCost builtin_of(const Job& job) {
  return builtin_cost(job.model().builtin(), job.sequence_length());
}

/// All chunks of a stage.
StageShape whole_stage(const Job& job, std::uint32_t stage) {
  StageShape sum;
  for (std::uint32_t chunk = 0; chunk < std::max(1u, job.layout().chunks()); ++chunk) {
    const StageShape part = stage_shape(job, stage, chunk);
    sum.layers += part.layers;
    sum.sparse_layers += part.sparse_layers;
    sum.first = sum.first || part.first;
    sum.last = sum.last || part.last;
  }
  return sum;
}

/// Returns the bytes of the scores: the softmax's statistics, or unfused its output twice and a
/// dropout mask (the 5 a s^2 b of arXiv:2205.05198).
double score_bytes(const RankShape& r) {
  if (r.flash) return r.tokens * r.heads * 4;
  return r.batch * r.heads * r.sequence * r.sequence / r.context * (2 * r.element + 1);
}

/// Bytes of a number that goes into a product. Its converted copy is kept (below 16 bits), and none
/// where the weights are frozen, since only their gradient would need it.
double input_element(const RankShape& r) {
  return r.adapter > 0 ? 0 : std::min(r.low_element, r.element);
}

/// Queries, keys and values; the output, which goes into the projection (adapted ones keep it).
double attention_bytes(const RankShape& r) {
  const double latents = r.own_tokens() * (r.query_rank + r.key_value_rank + r.rotary);
  const double kept = r.tokens * (r.heads * r.head + r.kv_heads * (r.head + r.value));
  const double output = r.adapter > 0 ? r.element : input_element(r);
  return (kept + 2 * latents) * r.element + r.tokens * r.heads * r.value * output;
}

/// The inputs of the experts' products. Results are weighted where they are activated, so that
/// their sum keeps none.
double sparse_bytes(const RankShape& r) {
  const ExpertShape& e = r.expert;
  const double routed = e.rows * e.local * (r.hidden + e.up + e.feed_forward);
  const double shared = r.tokens * (e.shared_up + e.shared_feed_forward);
  return (routed + shared) * r.element + 2 * r.tokens / r.tensor * e.count * 4;
}

/// Copies that a framework keeps of a layer's intermediate results besides those for the backward
/// pass (SoftwareStack.kept_*), in rows; for gathered activations, bytes for each token.
struct Kept {
  double queries = 0, inner = 0, gathered = 0;
};
/// Gathered activations outlive their layer only while the host launches another micro-batch: a
/// step of one micro-batch ends with a wait.
Kept kept_by(const Job& job, double micro_batches) {
  const SoftwareStack& stack = stack_of(job);
  if (job.compiled()) return {};
  const bool gathers = job.layout().pipeline() == 1 && job.layout().tensor() > 1;
  return {stack.kept_queries(), stack.kept_inner(),
          gathers && micro_batches > 1 ? stack.kept_gathered() : 0};
}

/// Returns the bytes of one micro-batch that the layers of a stage keep without recomputation:
/// inputs of two norms, of the first attention product and of the MLP (unfused: two dropout masks),
/// then the values that each product and the activation need for the backward pass.
double kept_bytes(const RankShape& r, const StageShape& stage, const Kept& kept, bool scores) {
  const double row = r.own_tokens() * r.hidden;
  const double copies = kept.queries * r.tokens * r.heads * r.head;
  const double inputs = (2 * row + copies) * r.element + kept.gathered * r.tokens +
                        (r.flash ? 0 : 2 * row) +
                        row * (input_element(r) + (r.adapter > 0 ? r.element : input_element(r)));
  // The input of the activation is kept in the format of its products if those are frozen.
  const double up = r.adapter > 0 ? std::min(r.low_element, r.element) : r.element;
  const double mlp = r.tokens * (r.mlp_up * up + kept.inner * r.feed_forward * r.element +
                                 r.feed_forward * input_element(r));
  return stage.layers * (inputs + attention_bytes(r) + (scores ? score_bytes(r) : 0)) +
         (stage.layers - stage.sparse_layers) * mlp + stage.sparse_layers * sparse_bytes(r);
}

/// Returns the largest memory of one layer: recomputed values exist for one layer at a time.
double layer_bytes(const RankShape& r, const StageShape& stage, const Kept& kept) {
  StageShape one{.layers = 1, .sparse_layers = stage.sparse_layers > 0 ? 1u : 0u};
  return kept_bytes(r, one, kept, true);
}

/// Returns the micro-batches in flight, in passes of the whole stage: 1F1B holds one for each later
/// stage and its own, as ZB-H1 does (arXiv:2401.10241); interleaving adds the warm-up of its chunks
/// (arXiv:2104.04473, section 2.2).
double in_flight(const Job& job, std::uint32_t stage, double micro_batches) {
  const double after = job.layout().pipeline() - stage - 1.0;
  const double chunks = std::max(1u, job.layout().chunks());
  if (chunks == 1) return std::min(after + 1, micro_batches);
  const double passes = 2 * after + (chunks - 1) * job.layout().pipeline() + 1;
  return std::min(passes / chunks, micro_batches);
}

/// Activations of a stage: values kept for the backward pass, and those of the layer at work.
struct Activations {
  double held = 0, at_once = 0;
};

Activations activations(const Job& job, const RankShape& r, std::uint32_t stage,
                        double micro_batches) {
  const StageShape shape = whole_stage(job, stage);
  const double flying = in_flight(job, stage, micro_batches);
  const Kept kept = kept_by(job, micro_batches);
  const double all = kept_bytes(r, shape, kept, true);
  double left = all, at_once = 0;  // kept by recomputed layers, and used by the current layer
  if (r.recompute == Recompute::full) {
    left = shape.layers * r.own_tokens() * r.hidden * r.element;
    at_once = layer_bytes(r, shape, kept);
  }
  if (r.recompute == Recompute::selective) {
    left = kept_bytes(r, shape, kept, false);
    at_once = score_bytes(r);
  }
  const double held = all + (left - all) * r.again;
  // Offloaded values stay on the GPU for the two current layers.
  const double layers = std::max(1u, shape.layers);
  const double here =
      offload_of(job) == Offload::activations ? std::min(1.0, 2 / (flying * layers)) : 1;
  return {flying * held * here, at_once};
}

/// Ranks that share the sharded state: of all parameters, and of the experts.
struct Copies {
  double dense = 1, expert = 1;
};

Copies copies_of(const StepGraph& graph) {
  const double all = graph.communicator_size(Communicator::gradient);
  const double dense = graph.communicator_size(Communicator::shard);
  const double expert = graph.communicator_size(Communicator::expert_gradient);
  return {dense, std::max(1.0, expert * dense / all)};
}

/// Returns the gathered layers: the one at work with its gradients and the next, which is being
/// gathered. XLA gathers a layer where its products read it, and has room for one.
double gathered_units(const RankShape& r, const StageShape& stage, bool planned) {
  const StageShape one{.layers = 1, .sparse_layers = stage.sparse_layers > 0 ? 1u : 0u};
  const double whole = planned || stage.layers < 2 ? 1 : 2;
  return r.parameters(one) * (whole * r.element + r.gradient);
}

/// Returns the gathered activations of the tensor-parallel ranks, the data in flight to a
/// neighbour, and the buffers of the experts' exchange.
double work_buffers(const Job& job, const RankShape& r) {
  const double whole = r.tokens * r.hidden * r.element;
  const double boundary =
      job.layout().pipeline() > 1 ? 2 * r.own_tokens() * r.hidden * r.element : 0;
  const double keys = r.tokens * r.kv_heads * (r.head + r.value) * r.element;
  const double exchanged = 2 * r.expert.sent * r.hidden * r.element;
  return (r.tensor > 1 ? whole : 0) + boundary + (r.context > 1 ? 2 * keys : 0) + exchanged;
}

/// Returns the bytes that the optimizer's step allocates for each parameter of its share: a copy of
/// a 16-bit gradient in fp32, the format of the weights and moments that the step reads, beside the
/// buffer of the gradients (Megatron-Core's _copy_model_grads_to_main_grads, the flat partition of
/// DeepSpeed's ZeRO). Optimizers without fp32 weights read 16-bit gradients, and so does
/// Transformer Engine's where the low halves of the weights are all that it keeps (6 bytes).
double update_copy(double state, double sum) {
  constexpr double kFp32Weights = 8;  // bytes of fp32 weights and moments of 16 bits
  return state >= kFp32Weights && sum < 4 ? 4 : 0;
}

/// Returns the gradients of weights in the format of their products, where an fp32 sum adds them
/// up: one for each matrix of a layer and for the output, which libraries keep for all layers
/// (Transformer Engine's get_dummy_wgrad). Of a rank's experts, one is in use.
double weight_gradients(const Job& job, const RankShape& r, const StageShape& stage) {
  const bool apart = r.gradient > r.element && r.adapter == 0;
  const bool gathered = sharding_of(job.layout()) == Sharding::parameters;
  // Stacks that keep such a gradient of every parameter count it there.
  if (!apart || gathered || stack_of(job).parameter_bytes() > 0) return 0;
  const StageShape one{.layers = 1, .sparse_layers = stage.sparse_layers > 0 ? 1u : 0u};
  const double experts = r.expert_parameters(one);
  double parameters = r.parameters(one) - experts + experts / std::max(1.0, r.expert.local);
  if (stage.last) parameters += r.vocabulary * r.hidden;
  return parameters * r.element;
}

}  // namespace

MemoryUse StepGraph::memory(std::uint32_t stage, std::uint32_t micro_batches) const {
  ensure(stage < pipeline(), "a stage of the pipeline");
  if (job_.has_program()) return recorded_memory(stage);
  MemoryUse use;
  if (is_builtin(job_)) {  // fp32, independently of the job
    const BuiltinCost cost = builtin_of(job_);
    const double tokens = double{1} * job_.micro_batch() * job_.sequence_length();
    use.parameters = use.gradients = Bytes{4 * cost.parameters};
    use.optimizer = Bytes{8 * cost.parameters};
    use.activations = Bytes{tokens * cost.activations * 4};
    return use;
  }
  const RankShape r(job_);
  const StageShape shape = whole_stage(job_, stage);
  const double experts = r.expert_parameters(shape), dense = r.parameters(shape) - experts;
  const Copies copies = copies_of(*this);
  const auto held = [&](bool sharded) {
    return sharded ? dense / copies.dense + experts / copies.expert : dense + experts;
  };
  const Sharding shard = sharding_of(job_.layout());
  const bool all = shard == Sharding::parameters;
  const SoftwareStack& stack = stack_of(job_);
  const double trained = held(true) > 0 ? r.trained(shape) / r.parameters(shape) : 1;
  // Adam's moments, and fp32 weights beside those of 16 bits.
  double state = job_.has_optimizer_bytes() ? job_.optimizer_bytes() : (r.element < 4 ? 12 : 8);
  double weight = r.adapter > 0 ? std::min(r.low_element, r.element) : r.element;
  double sum = job_.accumulation_bytes() > 0 ? job_.accumulation_bytes() : r.gradient;
  const bool late = late_gradients_of(stack) != nullptr;
  if (late && r.element < 4 && state > 4) {  // less than that has no fp32 weights
    state -= 4;
    weight = 4;
    sum = std::max(sum, weight);
  }
  use.parameters = Bytes{held(all) * (weight + trained * stack.parameter_bytes())};
  use.gradients = Bytes{held(shard >= Sharding::gradients) * trained * sum};
  double update = 0;
  if (offload_of(job_) != Offload::optimizer) {
    const double updated = held(shard != Sharding::nothing) * trained;
    use.optimizer = Bytes{updated * state};
    if (!late && r.element < 4) update = updated * update_copy(state, sum);
  }
  const Activations kept = activations(job_, r, stage, micro_batches);
  use.activations = Bytes{kept.held + kept.at_once};
  // Logits of the single micro-batch that the last stage holds.
  const double logit = stack.has_logit_bytes() ? stack.logit_bytes() : 4 + r.element;
  if (shape.last) use.logits = Bytes{r.tokens * r.vocabulary * logit};
  const bool planned = is_planned(stack);
  if (all) use.gathered = Bytes{gathered_units(r, shape, planned)};
  // The loss is over when the backward pass of a layer begins; XLA may order their parts otherwise.
  if (!planned) use.logits = use.logits - std::min(use.logits, use.gathered + Bytes{kept.at_once});
  if (late && micro_batches == 1) {
    use.gradients = use.gradients - std::min(use.gradients, Bytes{kept.held});
  }
  use.buffers = Bytes{work_buffers(job_, r) + weight_gradients(job_, r, shape)};
  double communicators = 1;
  for (const Communicator which : {Communicator::tensor, Communicator::context,
                                   Communicator::expert, Communicator::gradient}) {
    communicators += communicator_size(which) > 1 ? 1 : 0;
  }
  if (pipeline() > 1) communicators += 2;
  Bytes passing = use.activations + use.logits + use.gathered + use.buffers;
  // The passes are over when the optimizer begins.
  use.update = Bytes{update} - std::min(Bytes{update}, passing);
  passing += use.update;
  use.reserved = Bytes{kContext + communicators * kCommunicator};
  if (!planned) use.reserved += passing * kFragments;
  return use;
}

/// The peak that the recorded program had: its state on a rank, and everything else. A recording
/// has one or two communicators.
MemoryUse StepGraph::recorded_memory(std::uint32_t stage) const {
  const RecordedStep& step = job_.program().step();
  const double share = recorded_share(job_);
  const auto of_stage = [&](const auto& recorded) {
    const double state =
        recorded.parameter_bytes() + recorded.gradient_bytes() + recorded.optimizer_bytes();
    MemoryUse use;
    use.parameters = Bytes{recorded.parameter_bytes() * share};
    use.gradients = Bytes{recorded.gradient_bytes() * share};
    use.optimizer = Bytes{recorded.optimizer_bytes() * share};
    use.activations = Bytes{std::max(0.0, recorded.peak_bytes() - state)};
    use.reserved = Bytes{std::max(0.0, recorded.reserved_bytes() - recorded.peak_bytes())};
    return use;
  };
  MemoryUse use = stage == 0 ? of_stage(step) : of_stage(step.stages(static_cast<int>(stage) - 1));
  // The peak of a process on the processor contains all that the process has.
  if (step.gpu() == kRecordedProcessor) return use;
  const double communicators = (tensor() > 1 ? 3 : 2) + (pipeline() > 1 ? 2 : 0);
  use.reserved += Bytes{kContext + communicators * kCommunicator};
  return use;
}

/// Recorded: three times the operations of the recorded forward passes, on all ranks.
Flop StepGraph::model_flop() const {
  if (job_.has_program()) {
    const RecordedStep& step = job_.program().step();
    double forward = 0;
    for (std::uint32_t stage = 0; stage < stages_of(step); ++stage) {
      for (const RecordedOp& op : ops_of(step, stage)) {
        if (phase_of(op) != RecordedPhase::forward) continue;
        for (int i = 0; i < op.kernels_size(); ++i) {
          forward += step.kernels(static_cast<int>(op.kernels(i))).flop() * op.counts(i);
        }
      }
    }
    return Flop{3 * forward / step.micro_batches() * micro_batches() * tensor()};
  }
  const Model& model = job_.model();
  if (is_builtin(job_)) return Flop{3 * builtin_of(job_).forward_flop * tokens()};
  const RankShape r(job_);
  const double pairs = r.reach * (r.causal ? 0.5 : 1);
  const double attention = 2.0 * model.layers() * model.heads() * pairs * (r.head + r.value);
  return Flop{3 * (2 * active_weights(model) + attention) * tokens()};
}

}  // namespace orrery
