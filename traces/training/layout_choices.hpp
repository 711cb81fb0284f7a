// All layouts of a job on so many GPUs: how tensor, context, pipeline, data and expert parallelism
// share them, with what micro-batch, how many model chunks a stage, what is sharded and what is
// computed again, as the job's software stack has it. Called by sim/estimates/predict/layouts.
// Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/scenario.pb.h"

namespace orrery {

struct LayoutChoice {
  std::uint32_t tensor = 1, context = 1, pipeline = 1, data = 1, chunks = 1, expert = 1;
  std::uint32_t micro_batch = 1;
  const char* shard = "nothing";
  const char* recompute = "none";
  std::string objection;  ///< why the job cannot be laid out so; may be empty
};

struct LayoutBounds {
  std::uint32_t gpus = 0;
  std::uint32_t domain = 8;  ///< GPUs of an NVLink domain, over which no tensor group goes
};

/// Every way to divide the GPUs, in order; one that cannot be is there once, with the objection.
/// Of `job` count model, batch, sequence, stack and what a choice does not have.
std::vector<LayoutChoice> layout_choices(const Job& job, const LayoutBounds& bounds);

/// The job laid out so.
Job laid_out(Job job, const LayoutChoice& choice);

bool divides_alike(const LayoutChoice& a, const LayoutChoice& b);

/// "tensor 8 x pipeline 4 x data 16, micro-batch 1, ZeRO-1".
std::string words_of(const LayoutChoice& choice);

}  // namespace orrery
