#include "traces/workload/layout_check.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/error.hpp"
#include "traces/workload/job_choices.hpp"
#include "traces/workload/model.hpp"
#include "traces/workload/rank_shape.hpp"
#include "traces/workload/recorded_step.hpp"
#include "traces/workload/stacks.hpp"

namespace orrery {
namespace {

void check_builtin(const Job& job, std::vector<Problem>& out) {
  const Layout& layout = job.layout();
  if (!job.has_pace()) {
    out.push_back({"model.builtin", "the built-in model needs job.pace: what a micro-batch costs"});
  }
  if (layout.tensor() != 1) {
    out.push_back({"layout.tensor", "the built-in model is data parallel only: tensor must be 1"});
  }
  if (layout.pipeline() != 1) {
    out.push_back(
        {"layout.pipeline", "the built-in model is data parallel only: pipeline must be 1"});
  }
  if (layout.chunks() > 1) {
    out.push_back({"layout.chunks", "the built-in model has no pipeline: chunks must be 1"});
  }
}

void check_transformer(const Job& job, std::vector<Problem>& out) {
  const Model& model = job.model();
  const std::uint32_t tensor = job.layout().tensor();
  if (model.heads() % tensor != 0) {
    out.push_back({"layout.tensor", fmt::format("tensor = {} must divide the model's {} heads",
                                                tensor, model.heads())});
  }
  if (model.kv_heads() % tensor != 0 && tensor % model.kv_heads() != 0) {
    out.push_back({"layout.tensor", fmt::format("tensor = {} and the model's {} kv_heads: one "
                                                "must divide the other",
                                                tensor, model.kv_heads())});
  }
  if (model.feed_forward() % tensor != 0) {
    out.push_back({"layout.tensor", fmt::format("tensor = {} must divide feed_forward = {}",
                                                tensor, model.feed_forward())});
  }
  if (job.layout().pipeline() > model.layers()) {
    out.push_back(
        {"layout.pipeline", fmt::format("pipeline = {} is more than the model's {} layers",
                                        job.layout().pipeline(), model.layers())});
  } else if (const std::uint32_t empty = stages_left_empty(job); empty > 0) {
    out.push_back({"layout.pipeline",
                   fmt::format("pipeline = {}, balanced by cost, leaves {} of the stages without a "
                               "part of the model: take fewer stages",
                               job.layout().pipeline(), empty)});
  }
}

/// Says that one key must divide another; both are written as they stand in the file.
void must_divide(const char* path, double part, const char* name, double whole,
                 const std::string& of, std::vector<Problem>& out) {
  if (part > 0 && std::fmod(whole, part) == 0) return;
  out.push_back({path, fmt::format("{} = {} must divide {} = {}", name, part, of, whole)});
}

/// Reports heads that tensor x context ranks cannot share. Heads of keys and values that are fewer
/// than these ranks are copied, so that one number must divide the other.
void check_split_heads(const Job& job, std::vector<Problem>& out) {
  const double ranks = double{1} * std::max(1u, job.layout().tensor()) * job.layout().context();
  must_divide("layout.context_kind", ranks, "with ulysses, tensor x context", job.model().heads(),
              "the model's heads", out);
  const double kv_heads = job.model().kv_heads();
  if (job.model().has_latent_attention() || std::fmod(kv_heads, ranks) == 0 ||
      std::fmod(ranks, kv_heads) == 0) {
    return;
  }
  out.push_back({"layout.context_kind",
                 fmt::format("with ulysses, tensor x context = {} and the model's {} kv_heads: one "
                             "must divide the other", ranks, kv_heads)});
}

void check_context(const Job& job, std::vector<Problem>& out) {
  const double context = std::max(1u, job.layout().context());
  must_divide("layout.context", context, "context", job.sequence_length(), "sequence_length", out);
  if (context == 1) return;
  if (context_kind_of(job.layout()) == ContextKind::ulysses) return check_split_heads(job, out);
  if (attention_of(job) == Attention::unfused) {
    out.push_back({"layout.context", "keys and values go round in flash attention only: with "
                                     "attention: unfused, context must be 1, or context_kind "
                                     "ulysses"});
  }
}

void check_experts(const Job& job, std::vector<Problem>& out) {
  const Layout& layout = job.layout();
  const double expert = std::max(1u, layout.expert());
  if (!job.model().has_experts()) {
    if (expert > 1) {
      out.push_back({"layout.expert", "the model has no experts: expert must be 1"});
    }
    return;
  }
  const Experts& experts = job.model().experts();
  must_divide("layout.expert", expert, "expert", experts.count(), "the model's experts.count", out);
  const double others = double{1} * layout.data() * std::max(1u, layout.context());
  const double tensor = std::max(1u, layout.tensor()), split = expert_tensor(layout);
  must_divide("layout.expert_tensor", split, "expert_tensor", tensor, "tensor", out);
  must_divide("layout.expert_tensor", split, "expert_tensor", expert_feed_forward(job.model()),
              "the experts' feed_forward", out);
  must_divide("layout.expert", expert, "expert", others * tensor / split,
              "tensor x data x context / expert_tensor", out);
  if (experts.top_k() > experts.count()) {
    out.push_back({"model.experts.top_k", fmt::format("top_k = {} is more than the {} experts",
                                                      experts.top_k(), experts.count())});
  }
  if (!experts.has_capacity() &&
      (experts.padded() || dispatch_of(experts) == ExpertDispatch::einsum)) {
    out.push_back({"model.experts.capacity", "experts that are padded, or whose tokens are "
                                             "dispatched by einsum, compute a fixed number of "
                                             "tokens: capacity must be given"});
  }
  if (experts.dense_layers() > job.model().layers()) {
    out.push_back({"model.experts.dense_layers",
                   fmt::format("dense_layers = {} is more than the model's {} layers",
                               experts.dense_layers(), job.model().layers())});
  }
}

void check_schedule(const Job& job, std::vector<Problem>& out) {
  const Layout& layout = job.layout();
  const double chunks = std::max(1u, layout.chunks());
  if (chunks == 1) return;
  const double parts = chunks * layout.pipeline();
  if (layout.pipeline() < 2) {
    out.push_back({"layout.chunks", "chunks interleave pipeline stages: with pipeline = 1 there "
                                    "is nothing to interleave"});
  }
  if (schedule_of(layout) == PipelineSchedule::zero_bubble) {
    out.push_back({"layout.chunks", "the zero-bubble schedule has one chunk a stage"});
  }
  if (parts > most_parts(job.model())) {
    out.push_back({"layout.chunks",
                   fmt::format("chunks x pipeline = {} is more than the model's {} layers, its "
                               "embedding and its loss", parts, job.model().layers())});
  }
}

void check_shard(const Job& job, std::vector<Problem>& out) {
  const double group = job.layout().shard_group();
  if (group == 0) return;
  const double all = double{1} * job.layout().data() * std::max(1u, job.layout().context());
  must_divide("layout.shard_group", group, "shard_group", all, "data x context", out);
}

void check_batch(const Job& job, bool even_shares, std::vector<Problem>& out) {
  const std::uint64_t replicas = job.layout().data();
  const std::uint64_t share = replicas * job.micro_batch();
  const bool divides = share > 0 && job.global_batch() >= share &&
                       job.global_batch() % (even_shares ? share : job.micro_batch()) == 0;
  if (!divides) {
    out.push_back({"global_batch",
                   fmt::format("global_batch = {} must be a multiple of data x micro_batch = {}",
                               job.global_batch(), share)});
    return;
  }
  const double passes = static_cast<double>(job.global_batch()) / static_cast<double>(share) *
                        job.layout().pipeline();
  if (passes > kMostPasses) {
    out.push_back({"global_batch",
                   fmt::format("this makes {} micro-batches x stages in a replica, at most {} can "
                               "be simulated: choose a larger micro_batch or more replicas",
                               passes, kMostPasses)});
  }
}

}  // namespace

std::vector<Problem> job_problems(const Job& job, bool even_shares) {
  std::vector<Problem> out;
  if (job.has_program()) {
    check_program(job, out);
  } else if (!job.model().builtin().empty()) {
    check_builtin(job, out);
  } else {
    check_transformer(job, out);
    check_context(job, out);
    check_experts(job, out);
    check_schedule(job, out);
    check_shard(job, out);
  }
  check_batch(job, even_shares, out);
  if (job.noise_growth() > 0 && !job.has_noise_scale()) {
    out.push_back({"noise_growth", "expected noise_scale beside noise_growth, found none: declare "
                                   "the noise scale at step 0"});
  }
  const std::vector<std::string> stacks = stack_names();
  if (!job.has_software() && !job.stack().empty() &&
      std::find(stacks.begin(), stacks.end(), job.stack()) == stacks.end()) {
    out.push_back({"stack", fmt::format("no software stack is named '{}'{}", job.stack(),
                                        did_you_mean(job.stack(), stacks))});
  }
  const double layout = static_cast<double>(job.layout().tensor()) * job.layout().pipeline();
  const double shard = 4 * parameter_count(job.model()) / (layout > 0 ? layout : 1);
  if (job.has_program()) return out;  // buckets are recorded
  if (job.bucket() <= 0 || 2 * shard / job.bucket() > kMostBuckets) {
    out.push_back({"bucket", fmt::format("this makes more than {} gradient buckets on a stage: "
                                         "choose a larger one",
                                         kMostBuckets)});
  }
  return out;
}

}  // namespace orrery
