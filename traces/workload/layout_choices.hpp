// All layouts of a job on a number of GPUs: divisions by tensor, context, pipeline, data and expert
// parallelism, with micro-batch sizes, model chunks for each stage, sharding and recomputation, as
// the job's software stack supports them. Called by sim/estimates/predict/layouts. Pure;
// thread-safe. For example, 8 GPUs have tensor x pipeline x data of 8 x 1 x 1, 4 x 2 x 1, 2 x 2 x 2
// and more.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/scenario.pb.h"
#include "traces/workload/job_choices.hpp"
#include "traces/workload/sharding.hpp"

namespace orrery {

struct FrameworkHabits;

/// One layout.
struct LayoutChoice {
  std::uint32_t tensor = 1, context = 1, pipeline = 1, data = 1, chunks = 1, expert = 1;
  std::uint32_t micro_batch = 1;
  Sharding shard = Sharding::nothing;
  Recompute recompute = Recompute::none;
  std::string objection;  ///< reason why the job cannot be laid out so; may be empty
};

/// Limits of the layouts.
struct LayoutBounds {
  std::uint32_t gpus = 0;
  std::uint32_t domain = 8;  ///< GPUs of an NVLink domain, the limit of a tensor group
};

/// Returns every division of the GPUs, in order, within the limits of the search (context 64,
/// micro-batch 16, 8 chunks). An impossible tensor x context x pipeline x data appears once, with
/// its objection; impossible expert sizes are left out. Of `job`, whose model must be resolved,
/// model, batch, sequence, stack and all keys outside a choice are used.
std::vector<LayoutChoice> layout_choices(const Job& job, const LayoutBounds& bounds);

/// Returns the job with the layout of a choice, without shard group, expert_tensor and
/// recompute_share of its own. `habits`: framework that chooses what depends on the layout, as by
/// apply_habits(); null: the job's values stay. The result is not checked.
Job laid_out(Job job, const LayoutChoice& choice, const FrameworkHabits* habits = nullptr);

/// Returns true if both choices divide GPUs and experts in the same way; micro-batches, chunks,
/// sharding and recomputation may differ.
bool divides_alike(const LayoutChoice& a, const LayoutChoice& b);

/// Returns a description, for example "tensor 8 x pipeline 4 x data 16, micro-batch 1, ZeRO-1".
std::string words_of(const LayoutChoice& choice);

}  // namespace orrery
