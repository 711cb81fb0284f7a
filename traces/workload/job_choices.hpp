// Choices of a training job that a scenario names by a word: recomputation, attention kernels,
// offload, pipeline schedule, order of ranks, balance of layers, kind of context parallelism,
// dispatch and routing to experts, built-in model. Used by the step graph, the checks of a layout,
// the prices and live mode. Pure functions; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/schema/names.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Activations that are computed again in the backward pass (Job.recompute): none, those of the
/// inner part of attention, or those of the whole layer.
enum class Recompute : std::uint8_t { none, selective, full };
constexpr std::array<std::string_view, 3> names_of(Recompute) {
  return {"none", "selective", "full"};
}

/// Kernels of attention (Job.attention). flash: those of the second generation, as flash_2.
enum class Attention : std::uint8_t { flash, unfused, flash_1, flash_2, flash_3, cudnn };
constexpr std::array<std::string_view, 6> names_of(Attention) {
  return {"flash", "unfused", "flash-1", "flash-2", "flash-3", "cudnn"};
}

/// State that is kept in the host's memory (Job.offload).
enum class Offload : std::uint8_t { none, optimizer, activations };
constexpr std::array<std::string_view, 3> names_of(Offload) {
  return {"none", "optimizer", "activations"};
}

/// Order of the passes of a pipeline stage (Layout.schedule).
enum class PipelineSchedule : std::uint8_t { one_f_one_b, zero_bubble };
constexpr std::array<std::string_view, 2> names_of(PipelineSchedule) {
  return {"one-f-one-b", "zero-bubble"};
}

/// Order of ranks (Layout.order): the dimension whose neighbours are farthest apart.
enum class RankOrder : std::uint8_t { data_last, pipeline_last };
constexpr std::array<std::string_view, 2> names_of(RankOrder) {
  return {"data-last", "pipeline-last"};
}

/// Distribution of layers over pipeline stages (Layout.balance): equal numbers, or equal costs.
enum class LayerBalance : std::uint8_t { layers, cost };
constexpr std::array<std::string_view, 2> names_of(LayerBalance) { return {"layers", "cost"}; }

/// Attention over sequences that context ranks share (Layout.context_kind): keys and values go
/// round, or all-to-alls give each rank a share of the heads.
enum class ContextKind : std::uint8_t { ring, ulysses };
constexpr std::array<std::string_view, 2> names_of(ContextKind) { return {"ring", "ulysses"}; }

/// Way of tokens to their experts (Experts.dispatch): copies of rows, or products with one-hot
/// masks.
enum class ExpertDispatch : std::uint8_t { permute, einsum };
constexpr std::array<std::string_view, 2> names_of(ExpertDispatch) { return {"permute", "einsum"}; }

/// Distribution of tokens over experts (Experts.routing).
enum class ExpertRouting : std::uint8_t { forced, natural };
constexpr std::array<std::string_view, 2> names_of(ExpertRouting) { return {"forced", "natural"}; }

/// Small models that live mode trains (Model.builtin).
enum class BuiltinKind : std::uint8_t { language_model, transformer };
constexpr std::array<std::string_view, 2> names_of(BuiltinKind) {
  return {"language-model", "transformer"};
}

/// Handling of a job that does not fit the memory of its GPUs (Run.memory): the job is refused, or
/// simulated with a warning.
enum class MemoryShortage : std::uint8_t { refuse, warn };
constexpr std::array<std::string_view, 2> names_of(MemoryShortage) { return {"refuse", "warn"}; }

// The functions below return the choice of a job or run; the default of the schema if none is
// named. They throw as named().

inline MemoryShortage memory_shortage_of(const Run& run) {
  return named(run.memory(), std::optional(MemoryShortage::refuse));
}
inline Recompute recompute_of(const Job& job) {
  return named(job.recompute(), std::optional(Recompute::none));
}
inline Attention attention_of(const Job& job) {
  return named(job.attention(), std::optional(Attention::flash));
}
inline Offload offload_of(const Job& job) {
  return named(job.offload(), std::optional(Offload::none));
}
inline PipelineSchedule schedule_of(const Layout& layout) {
  return named(layout.schedule(), std::optional(PipelineSchedule::one_f_one_b));
}
inline RankOrder rank_order_of(const Layout& layout) {
  return named(layout.order(), std::optional(RankOrder::data_last));
}
inline LayerBalance balance_of(const Layout& layout) {
  return named(layout.balance(), std::optional(LayerBalance::layers));
}
inline ExpertRouting routing_of(const Experts& experts) {
  return named(experts.routing(), std::optional(ExpertRouting::forced));
}
inline ContextKind context_kind_of(const Layout& layout) {
  return named(layout.context_kind(), std::optional(ContextKind::ring));
}
inline ExpertDispatch dispatch_of(const Experts& experts) {
  return named(experts.dispatch(), std::optional(ExpertDispatch::permute));
}
/// Returns the built-in model; nothing for a model that is described by its sizes.
inline std::optional<BuiltinKind> builtin_kind(const Model& model) {
  if (model.builtin().empty()) return {};
  return named<BuiltinKind>(model.builtin());
}

}  // namespace orrery
