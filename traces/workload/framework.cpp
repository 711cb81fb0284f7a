#include "traces/workload/framework.hpp"

#include <algorithm>
#include <array>

#include "traces/workload/job_choices.hpp"
#include "traces/workload/layout_check.hpp"
#include "traces/workload/model.hpp"
#include "traces/workload/precision.hpp"

namespace orrery {
namespace {

constexpr double kUserBuffers = 0.7;  ///< Transformer Engine's overlap of products and collectives
/// Fraction of the experts' exchange that another micro-batch hides: DualPipe is meant to hide all
/// of it (arXiv:2412.19437, section 3.2); the first and last micro-batches have no partner.
constexpr double kOtherMicroBatch = 0.8;

/// The first whose `named` is contained counts.
constexpr std::array kFrameworks = {
    // Its recipes load the model in bf16 and give these weights to torch.optim's Adam, whose
    // moments have the format of the weights.
    FrameworkHabits{.named = "automodel",
                    .stack = "pytorch-fsdp",
                    .shard = Sharding::parameters,
                    .optimizer_bytes = 4},
    // Recipes of 2025 are those of NeMo 2024 with newer kernels; experts exchange tokens beside
    // another micro-batch's computation (overlap_moe_expert_parallel_comm).
    FrameworkHabits{.named = "megatron-bridge",
                    .stack = "megatron-bridge",
                    .shard = Sharding::optimizer,
                    .tensor = kUserBuffers,
                    .expert = kOtherMicroBatch},
    // The pipeline engine of DeepSpeed exchanges gradients after the last micro-batch.
    FrameworkHabits{.named = "megatron-deepspeed",
                    .stack = "megatron-deepspeed",
                    .shard = Sharding::optimizer,
                    .overlap = false,
                    .pipeline = false,
                    .splits_tokens = false},
    FrameworkHabits{
        .named = "nemo megatron", .stack = "nemo-megatron", .shard = Sharding::optimizer},
    // Megatron-Core before expert-tensor-parallel sizes: experts are split like everything else.
    FrameworkHabits{.named = "nemo",
                    .stack = "nemo",
                    .shard = Sharding::optimizer,
                    .tensor = kUserBuffers,
                    .splits_experts = true},
    FrameworkHabits{.named = "megatron-core",
                    .stack = "megatron-core",
                    .shard = Sharding::optimizer,
                    .gradient_bytes = 4},
    // arXiv:2104.04473 and arXiv:2205.05198: blocking transfers between stages, gradients after
    // the last micro-batch.
    FrameworkHabits{.named = "megatron-lm 2021",
                    .stack = "megatron-lm-2021",
                    .shard = Sharding::nothing,
                    .overlap = false,
                    .pipeline = false,
                    .splits_tokens = false},
    FrameworkHabits{.named = "megatron-lm 2022",
                    .stack = "megatron-lm-2022",
                    .shard = Sharding::nothing,
                    .overlap = false,
                    .pipeline = false},
    // DeepSpeedExamples/Megatron-LM-v1.1.5-ZeRO3: its script passes --synchronize-each-layer, and
    // its configuration asks for a breakdown by the wall clock, which waits for the device too.
    // Checkpoints are kept in the host's memory (--checkpoint-in-cpu).
    FrameworkHabits{.named = "megatron-lm v1.1.5",
                    .stack = "megatron-deepspeed",
                    .shard = Sharding::parameters,
                    .overlap = false,
                    .pipeline = false,
                    .splits_tokens = false,
                    .offload = Offload::activations},
    FrameworkHabits{.named = "megatron-lm",
                    .stack = "megatron-core",
                    .shard = Sharding::optimizer,
                    .gradient_bytes = 4},
    FrameworkHabits{.named = "megascale",
                    .stack = "megatron-core",
                    .shard = Sharding::gradients,
                    .tensor = kUserBuffers},
    FrameworkHabits{.named = "composer", .stack = "composer-fsdp", .shard = Sharding::parameters},
    // A pipeline's micro-batches are of one sequence, and FSDP keeps the parameters between them.
    FrameworkHabits{.named = "torchtitan",
                    .stack = "torchtitan",
                    .shard = Sharding::parameters,
                    .gradient_bytes = 4,
                    .splits_batch = true},
    FrameworkHabits{
        .named = "pytorch fsdp", .stack = "pytorch-fsdp", .shard = Sharding::parameters},
    // Rematerialises whole layers unless a recipe says otherwise (configs/base.yml). Steps of
    // DeepSeek-V3 on MI355X and B200 (maxtext-slurm) are the sum of a fixed time, that of FSDP, and
    // of one that grows with the micro-batch, under four sets of XLA flags; dense steps overlap.
    FrameworkHabits{.named = "maxtext",
                    .stack = "maxtext",
                    .shard = Sharding::parameters,
                    .overlap_with_exchange = false,
                    .compiled = true,
                    .recomputes_to_fit = true,
                    .recompute = Recompute::full},
    FrameworkHabits{.named = "levanter",
                    .stack = "maxtext",
                    .shard = Sharding::parameters,
                    .compiled = true,
                    .recomputes_to_fit = true,
                    .recompute = Recompute::full},
    // DeepSpeed's ZeRO-3 with overlap_comm (configs/deepspeed/deepspeed_zero3.json); its
    // configurations checkpoint every layer.
    FrameworkHabits{.named = "xtuner",
                    .stack = "pytorch-fsdp",
                    .shard = Sharding::parameters,
                    .recompute = Recompute::full},
    // Its adapters, of several runs at once, are operators of their own beside FSDP2's layers.
    FrameworkHabits{.named = "prime-rl", .stack = "prime-rl", .shard = Sharding::parameters},
    FrameworkHabits{.named = "paxml",
                    .stack = "paxml",
                    .shard = Sharding::parameters,
                    .compiled = true,
                    .recomputes_to_fit = true},
    FrameworkHabits{
        .named = "hf transformers", .stack = "pytorch-eager", .shard = Sharding::nothing},
    // Its own gradient accumulator in fp32: with ZeRO-1 gradients are scattered after the last
    // micro-batch and parameters gathered after the update; without, PyTorch's DDP overlaps them.
    FrameworkHabits{.named = "nanotron",
                    .stack = "nanotron",
                    .shard = Sharding::optimizer,
                    .gradient_bytes = 4,
                    .pipeline = false,
                    .by_cost = true,
                    .late_exchange = true},
    // configs/7B_sft.py: overlap_sync_grad, but not overlap_sync_param; tensor mode mtp, which is
    // without sequence parallelism.
    FrameworkHabits{.named = "internevo",
                    .stack = "internevo",
                    .shard = Sharding::optimizer,
                    .parameters = false,
                    .splits_tokens = false},
    FrameworkHabits{.named = "meta internal",
                    .stack = "pytorch-fsdp",
                    .shard = Sharding::gradients,
                    .gradient_bytes = 4},
    FrameworkHabits{.named = "hai-llm",
                    .stack = "megatron-core",
                    .shard = Sharding::optimizer,
                    .expert = kOtherMicroBatch},
    // NVIDIA's and its partners' submissions to MLPerf run NeMo, independently of the log's title.
    FrameworkHabits{.named = "mlperf", .stack = "nemo", .shard = Sharding::optimizer},
    FrameworkHabits{.named = "metaseq",
                    .stack = "megatron-lm-2022",
                    .shard = Sharding::parameters,
                    .splits_tokens = false},
};

/// Returns the bytes of a gradient bucket: as few buckets as can be simulated; FSDP gathers and
/// scatters layer by layer.
double usual_bucket(const Job& job) {
  const Layout& layout = job.layout();
  const double tensor = std::max(1u, layout.tensor());
  const double parameters = parameter_count(job.model());
  if (sharding_of(layout) == Sharding::parameters) {
    const double stored = precision_of(job) == JobPrecision::fp32 ? 4 : 2;
    const double gradient = job.has_gradient_bytes() ? job.gradient_bytes() : stored;
    return std::max(1.0, gradient * parameters / job.model().layers() / tensor);
  }
  const double ranks = tensor * std::max(1u, layout.pipeline());
  return std::max(256.0 * 1024 * 1024, 8 * parameters / ranks / 0.9 / kMostBuckets);
}

/// Returns true if a job's ranks exchange tokens of experts.
bool exchanges_tokens(const Job& job) {
  return job.model().has_experts() && job.layout().expert() > 1;
}

}  // namespace

std::string_view overlap_words(const FrameworkHabits& habits, std::optional<bool> exchanges) {
  if (!habits.overlap) return "not overlapped";
  if (!habits.overlap_with_exchange && exchanges.value_or(true)) {
    return exchanges ? "not overlapped" : "not overlapped if expert > 1";
  }
  return habits.parameters ? "overlapped" : "overlapped but the gathering of parameters";
}

void apply_habits(const FrameworkHabits& habits, Job& job) {
  Layout& layout = *job.mutable_layout();
  const bool late = habits.late_exchange && sharding_of(layout) != Sharding::nothing;
  const bool beside = habits.overlap_with_exchange || !exchanges_tokens(job);
  const bool overlaps_any = habits.overlap && beside && !late;
  job.set_overlap(overlaps_any);
  Overlap& overlaps = *job.mutable_overlaps();
  overlaps.set_parameters(overlaps_any && habits.parameters);
  overlaps.set_pipeline(habits.pipeline);
  const bool splits = layout.tensor() > 1 && layout.sequence_parallel();
  overlaps.set_tensor(splits ? habits.tensor : 0);
  overlaps.set_expert(job.model().has_experts() ? habits.expert : 0);
  if (habits.by_cost) layout.set_balance(std::string(name_of(LayerBalance::cost)));
  job.set_bucket(usual_bucket(job));
  const bool inside = layout.expert() <= layout.data() * std::max(1u, layout.context());
  if (job.model().has_experts() && habits.splits_experts && inside && !layout.has_expert_tensor()) {
    layout.set_expert_tensor(layout.tensor());
  }
}

const FrameworkHabits* framework_habits(std::string_view name) {
  const std::string lower = lower_case(name);
  for (const FrameworkHabits& each : kFrameworks) {
    if (lower.find(each.named) != std::string::npos) return &each;
  }
  return nullptr;
}

const FrameworkHabits* habits_of_stack(std::string_view stack) {
  for (const FrameworkHabits& each : kFrameworks) {
    if (each.stack == stack) return &each;
  }
  return nullptr;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

}  // namespace orrery
