// Defaults of training frameworks for values that a table of runs omits: their habits by name and
// year, from their documentation and shipped recipes. Called by published_run.hpp. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "traces/workload/job_choices.hpp"
#include "traces/workload/sharding.hpp"

namespace orrery {

/// Habits of one framework.
struct FrameworkHabits {
  std::string_view named;  ///< part of its name in tables, in lower case
  std::string_view stack;  ///< name in traces/catalog/stacks.yaml
  Sharding shard{};        ///< Layout.shard
  std::uint32_t gradient_bytes = 2;  ///< bytes of a gradient on the wire
  bool overlap = true;     ///< Job.overlap, and with `parameters` Overlap.parameters
  bool parameters = true;  ///< false: updated parameters are gathered in the open
  /// false: where ranks exchange tokens of experts, nothing of `overlap` runs beside computation
  bool overlap_with_exchange = true;
  bool pipeline = true;    ///< Overlap.pipeline
  double tensor = 0;       ///< Overlap.tensor
  double expert = 0;       ///< Overlap.expert
  bool splits_tokens = true;  ///< Layout.sequence_parallel where tensor > 1
  bool splits_experts = false;  ///< true: tensor ranks split each expert (Layout.expert_tensor)
  bool compiled = false;      ///< Job.compiled
  /// true: its compiler recomputes if memory would not suffice (XLA)
  bool recomputes_to_fit = false;
  bool by_cost = false;       ///< Layout.balance is cost
  /// true: with a sharded optimizer no part of the exchange is overlapped
  bool late_exchange = false;
  /// true: with a pipeline, batches are split into micro-batches of one sequence
  bool splits_batch = false;
  /// default if a row omits it; nothing: none, or selective to fit
  std::optional<Recompute> recompute = {};
  Offload offload{};  ///< Job.offload if a row omits it
  std::optional<double> optimizer_bytes = {};  ///< Job.optimizer_bytes if a row omits it
};

/// Returns the habits of a framework by its name in tables: the first whose `named` is a part of
/// `name`, in any case; null if the framework is unknown.
const FrameworkHabits* framework_habits(std::string_view name);

/// Returns the habits of the first framework of the table with the fitted factors of a stack; null
/// if none exists.
const FrameworkHabits* habits_of_stack(std::string_view stack);

/// Returns the words of an assumption for a job with these habits: "overlapped", "not overlapped"
/// and others. `exchanges`: ranks exchange tokens of experts; nothing: the layout is still open.
std::string_view overlap_words(const FrameworkHabits& habits, std::optional<bool> exchanges);

/// Sets the values of a job that depend on its layout and that the framework chooses: overlaps,
/// balance and bucket, and expert_tensor if the layout has none. The model must be resolved, and
/// layout, micro-batch, precision and shard set.
void apply_habits(const FrameworkHabits& habits, Job& job);

/// Returns the text in ASCII lower case.
std::string lower_case(std::string_view text);

}  // namespace orrery
