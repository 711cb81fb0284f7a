// The options of a published run as tables write them: what is recomputed, which attention kernels
// run, what overlaps, what is offloaded. Used by published_run.cpp only. Thread-safe: pure
// functions over one row's texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/published/published_table.hpp"

namespace orrery {

/// What is computed again, and in which share of the layers.
struct RecomputeOption {
  std::string what;  ///< none, selective or full; empty: the text does not say
  double share = 1;
  std::string assumed;  ///< what had to be read into it; may be empty
};

/// "none", "selective", "selective 2" (every second layer whole, as PyTorch's activation
/// checkpointing has it), "full", "full block 4" (layers of a stage), lists of Megatron-Core's
/// modules ("core_attn, mlp"). layers: of one stage.
RecomputeOption recompute_option(std::string_view text, std::uint32_t layers);

/// Job.attention by the kernel's name; nothing where the text names none.
std::optional<std::string> attention_option(std::string_view text);

/// What a run's flags say of overlap; nothing where they do not.
struct OverlapOption {
  std::optional<bool> gradients, parameters, pipeline, graphs;
  std::optional<double> tensor, expert;
  bool understood = true;  ///< at least one flag was known, or there was no text
};
OverlapOption overlap_option(std::string_view text);

/// Rank of the adapters where only those are trained ("llama2-70b LoRA r16"); 0: all is trained.
std::uint32_t adapter_rank(std::string_view model);

/// Bytes of optimizer state for each parameter by the optimizer's name, fp32 weights beside 16-bit
/// ones counted; nothing for one that is not known.
std::optional<double> optimizer_bytes(std::string_view name);

/// The whole number after a word, as in "shard group 64"; nothing if there is none.
std::optional<std::uint32_t> number_after(std::string_view text, std::string_view word);

}  // namespace orrery
