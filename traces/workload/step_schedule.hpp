// Order of the passes of a pipeline stage over its micro-batches. Used by step_program.cpp. Pure
// function; thread-safe. 1F1B and its interleaved form after Narayanan et al. 2021
// (arXiv:2104.04473), zero bubble ZB-H1 after Qi et al. 2024 (arXiv:2401.10241). For example, stage
// 2 of 4 (from 0) with 4 micro-batches runs F0 F1 B0 F2 B1 F3 B2 B3.
#pragma once

#include <cstdint>
#include <vector>

namespace orrery {

/// Stage of a pipeline with its schedule.
struct PipelinePlace {
  std::uint32_t stage = 0, stages = 1;
  std::uint32_t chunks = 1;  ///< model chunks of a stage; above 1: interleaved
  std::uint32_t micro_batches = 0;
  bool zero_bubble = false;  ///< only with one chunk
  /// Micro-batches of the replica whose order is followed; 0: its own. Replicas with collectives in
  /// every pass follow the one with the most, or they would wait for each other.
  std::uint32_t order_of = 0;
};

/// Pass of one micro-batch through a chunk.
struct Pass {
  /// Kinds of passes. weights: the products for the weights' gradients, if separate from
  /// `backward`.
  enum class Kind : std::uint8_t { forward, backward, weights } kind{};
  std::uint32_t micro_batch = 0, chunk = 0;
  friend bool operator==(const Pass&, const Pass&) = default;
};

/// Returns every pass of the stage, in order. Interleaving moves micro-batches through a chunk in
/// groups of `stages`, with the rest in the last group (smaller groups would wait for themselves);
/// fewer micro-batches than stages complete all forward passes first. `stage` must be below
/// `stages` (not checked). `order_of` must be 0 or at least `micro_batches`; an interleaved stage
/// then leaves out the passes that it lacks.
std::vector<Pass> pass_order(const PipelinePlace& place);

}  // namespace orrery
