#include "traces/workload/layout_choices.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "traces/workload/framework.hpp"
#include "traces/workload/layout_check.hpp"

namespace orrery {
namespace {

using Counts = std::vector<std::uint32_t>;

/// Limits of the search: no published run exceeds them, and larger values cost more than they save.
constexpr std::uint32_t kMostContext = 64, kMostChunks = 8, kMostMicroBatch = 16;
constexpr std::uint32_t kLeastTokens = 2048;  ///< tokens of a sequence on a context rank

Counts divisors(std::uint32_t number) {
  Counts out;
  for (std::uint32_t i = 1; i * i <= number; ++i) {
    if (number % i != 0) continue;
    out.push_back(i);
    if (i != number / i) out.push_back(number / i);
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// Returns the states that frameworks of the job's stack share among replicas.
std::vector<Sharding> shards_of(const Job& job) {
  using enum Sharding;
  const FrameworkHabits* const habits = habits_of_stack(job.stack());
  if (habits == nullptr) return {nothing, optimizer, gradients, parameters};
  if (habits->shard <= optimizer) return {nothing, optimizer};
  return {gradients, parameters};
}

class Choices {
 public:
  Choices(const Job& job, const LayoutBounds& bounds)
      : job_(job), bounds_(bounds), shards_(shards_of(job)) {
    if (attention_of(job) != Attention::unfused) return;
    recomputes_.insert(recomputes_.begin() + 1, Recompute::selective);
  }
  std::vector<LayoutChoice> all();

 private:
  void divided(LayoutChoice choice);
  void with_experts(LayoutChoice choice);
  void with_batch(LayoutChoice choice);
  void with_chunks(LayoutChoice choice);
  bool is_possible(LayoutChoice& choice) const;
  /// Fused kernels already avoid the recomputation of unfused attention, so nothing lies in
  /// between.
  std::vector<Recompute> recomputes_ = {Recompute::none, Recompute::full};

  const Job& job_;
  const LayoutBounds& bounds_;
  const std::vector<Sharding> shards_;
  std::vector<LayoutChoice> out_;
};

bool Choices::is_possible(LayoutChoice& choice) const {
  const std::vector<Problem> problems = job_problems(laid_out(job_, choice));
  if (!problems.empty()) choice.objection = problems.front().message;
  return problems.empty();
}

std::vector<LayoutChoice> Choices::all() {
  for (const std::uint32_t tensor : divisors(bounds_.gpus)) {
    if (tensor > std::max(bounds_.domain, job_.layout().tensor())) break;
    for (std::uint32_t context = 1; context <= kMostContext; context *= 2) {
      const bool long_enough = context == 1 || job_.sequence_length() / context >= kLeastTokens;
      if (!long_enough || bounds_.gpus % (tensor * context) != 0) break;
      const std::uint32_t rest = bounds_.gpus / (tensor * context);
      for (const std::uint32_t pipeline : divisors(rest)) {
        if (pipeline > job_.model().layers()) break;
        divided({.tensor = tensor, .context = context, .pipeline = pipeline,
                 .data = rest / pipeline, .objection = {}});
      }
    }
  }
  return std::move(out_);
}

void Choices::divided(LayoutChoice choice) {
  if (!is_possible(choice)) {
    out_.push_back(std::move(choice));
    return;
  }
  with_experts(choice);
}

void Choices::with_experts(LayoutChoice choice) {
  const std::uint32_t count = job_.model().has_experts() ? job_.model().experts().count() : 1;
  for (const std::uint32_t expert : divisors(count)) {
    choice.expert = expert;
    LayoutChoice tried = choice;
    if (expert == 1 || is_possible(tried)) with_batch(choice);
  }
}

void Choices::with_batch(LayoutChoice choice) {
  for (std::uint32_t size = 1; size <= kMostMicroBatch; size *= 2) {
    if (job_.global_batch() % (std::uint64_t{size} * choice.data) != 0) break;
    choice.micro_batch = size;
    with_chunks(choice);
  }
}

void Choices::with_chunks(LayoutChoice choice) {
  const std::uint32_t layers = job_.model().layers();
  const std::uint32_t micro_batches = job_.global_batch() / choice.data / choice.micro_batch;
  // Interleaving frameworks want equal chunks, and micro-batches in whole rounds of the stages.
  const bool interleaves = choice.pipeline > 1 && layers % choice.pipeline == 0 &&
                           micro_batches % choice.pipeline == 0 &&
                           schedule_of(job_.layout()) != PipelineSchedule::zero_bubble;
  const bool alone = choice.data * choice.context == 1;
  for (const std::uint32_t chunks : divisors(layers / std::max(1u, choice.pipeline))) {
    if (chunks > (interleaves ? kMostChunks : 1)) break;
    choice.chunks = chunks;
    for (const Sharding shard : shards_) {
      // FSDP with a pipeline would gather all parameters again for each micro-batch.
      if (shard == Sharding::parameters && choice.pipeline > 1) continue;
      choice.shard = alone ? Sharding::nothing : shard;
      for (const Recompute recompute : recomputes_) {
        choice.recompute = recompute;
        out_.push_back(choice);
      }
      if (alone) break;
    }
  }
}

}  // namespace

std::vector<LayoutChoice> layout_choices(const Job& job, const LayoutBounds& bounds) {
  return Choices(job, bounds).all();
}

Job laid_out(Job job, const LayoutChoice& choice, const FrameworkHabits* habits) {
  Layout& layout = *job.mutable_layout();
  layout.set_tensor(choice.tensor);
  layout.set_context(choice.context);
  layout.set_pipeline(choice.pipeline);
  layout.set_data(choice.data);
  layout.set_chunks(choice.chunks);
  layout.set_expert(choice.expert);
  set_sharding(layout, choice.shard);
  layout.set_shard_group(0);
  layout.clear_expert_tensor();
  job.set_micro_batch(choice.micro_batch);
  job.set_recompute(std::string(name_of(choice.recompute)));
  job.clear_recompute_share();
  if (habits != nullptr) apply_habits(*habits, job);
  return job;
}

bool divides_alike(const LayoutChoice& a, const LayoutChoice& b) {
  return a.tensor == b.tensor && a.context == b.context && a.pipeline == b.pipeline &&
         a.data == b.data && a.expert == b.expert;
}

std::string words_of(const LayoutChoice& choice) {
  std::string text;
  const auto among = [&](const char* name, std::uint32_t ranks) {
    if (ranks > 1) text += fmt::format("{}{} {}", text.empty() ? "" : " x ", name, ranks);
  };
  among("tensor", choice.tensor);
  among("context", choice.context);
  among("pipeline", choice.pipeline);
  among("data", choice.data);
  if (text.empty()) text = "one GPU";
  if (choice.expert > 1) text += fmt::format(", expert {}", choice.expert);
  text += fmt::format(", micro-batch {}", choice.micro_batch);
  if (choice.chunks > 1) text += fmt::format(", chunks {}", choice.chunks);
  constexpr std::array<const char*, 4> kShardings{"", ", ZeRO-1", ", ZeRO-2", ", FSDP"};
  text += kShardings.at(static_cast<std::size_t>(choice.shard));
  if (choice.recompute == Recompute::none) return text;
  return text + fmt::format(", recompute {}", name_of(choice.recompute));
}

}  // namespace orrery
