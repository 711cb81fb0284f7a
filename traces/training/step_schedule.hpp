// In which order a pipeline stage works its micro-batches' passes off. Used by step_program.cpp.
// Thread-safe: a pure function.
//
// 1F1B and its interleaved form after Narayanan et al. 2021 (arXiv:2104.04473), zero bubble ZB-H1
// after Qi et al. 2024 (arXiv:2401.10241).
#pragma once

#include <cstdint>
#include <vector>

namespace orrery {

struct PipelinePlace {
  std::uint32_t stage = 0, stages = 1;
  std::uint32_t chunks = 1;  ///< model chunks of a stage; above 1: interleaved
  std::uint32_t micro_batches = 0;
  bool zero_bubble = false;  ///< with one chunk only
};

struct Pass {
  /// weights: the products for the weights' gradients, where they are apart from `backward`.
  enum class Kind : std::uint8_t { forward, backward, weights } kind{};
  std::uint32_t micro_batch = 0, chunk = 0;
  friend bool operator==(const Pass&, const Pass&) = default;
};

/// Every pass of the stage, in order. Interleaving takes micro-batches through a chunk in groups of
/// `stages`, the last group with what is left over (smaller ones would wait for themselves); fewer
/// micro-batches than stages go through all forward passes first.
std::vector<Pass> pass_order(const PipelinePlace& place);

}  // namespace orrery
