// What training frameworks do when a table of runs does not say: their habits by name and year,
// from their documentation and shipped recipes. Called by published_run.hpp. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace orrery {

struct FrameworkHabits {
  std::string_view named;  ///< what its name in a table contains, in lower case
  std::string_view stack;  ///< its name in traces/catalog/stacks.yaml
  std::string_view shard;  ///< Layout.shard
  std::uint32_t gradient_bytes = 2;  ///< of a gradient on the wire
  bool overlap = true;     ///< Job.overlap, and Overlap.parameters
  bool pipeline = true;    ///< Overlap.pipeline
  double tensor = 0;       ///< Overlap.tensor
  double expert = 0;       ///< Overlap.expert
  bool splits_tokens = true;  ///< Layout.sequence_parallel where tensor > 1
  bool splits_experts = false;  ///< tensor ranks split each expert (Layout.expert_tensor)
  bool compiled = false;      ///< Job.compiled
  bool recomputes_to_fit = false;  ///< its compiler does, where memory would not do (XLA)
  bool by_cost = false;       ///< Layout.balance is cost
  bool late_exchange = false;  ///< with a sharded optimizer nothing of the exchange is overlapped
  bool splits_batch = false;  ///< with a pipeline, into micro-batches of one sequence
  std::string_view recompute = {};  ///< where not said; empty: none, or selective to fit
};

/// By a framework's name as tables write it; null if it is none that is known.
const FrameworkHabits* framework_habits(std::string_view name);

/// Of the newest framework that the fitted factors of a stack are for; null if there is none.
const FrameworkHabits* habits_of_stack(std::string_view stack);

/// ASCII lower case.
std::string lower_case(std::string_view text);

}  // namespace orrery
