// Interpretation of the options of a published run in the notation of tables: recomputation,
// attention kernels, overlap, adapters, optimizer. Used by published_run.cpp and its parts only.
// Thread-safe: pure functions of one row's texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/published/published_table.hpp"

namespace orrery {

/// Recomputation of a run, and the fraction of the layers that are recomputed.
struct RecomputeOption {
  std::string what;  ///< none, selective or full; empty: not given or unknown
  double share = 1;
  std::string assumed;  ///< assumption of the interpretation; may be empty
  bool offloads = false;  ///< true: kept activations are in the host's memory
  bool offloads_to_fit = false;  ///< true: kept activations are there if they do not fit otherwise
};

/// Returns the recomputation in a text: "none", "selective", "selective 2" (every second layer
/// whole, as in PyTorch's activation checkpointing), "full", "full block 4" (layers of a stage),
/// "full, 9 of 61 layers", lists of Megatron-Core's modules ("core_attn, mlp"). A text that says
/// only that activations are offloaded means full: the checkpoints are offloaded. `layers`: of one
/// stage.
RecomputeOption recompute_option(std::string_view text, std::uint32_t layers);

/// Returns the value of Job.attention for a kernel's name, for example "flash-2" for "sdpa";
/// "flash" for an unknown name; nothing for an empty text.
std::optional<std::string> attention_option(std::string_view text);

/// Overlap of communication by a run's flags. An empty value: the flags do not say.
struct OverlapOption {
  std::optional<bool> gradients, parameters, pipeline, graphs;
  std::optional<double> tensor, expert;
  /// True if at least one flag was known, or the text was empty or named all or no overlap.
  bool understood = true;
};
/// Returns the overlap in a text of flags, for example "overlap_grad_reduce,
/// tp_comm_overlap=False".
OverlapOption overlap_option(std::string_view text);

/// Capacity of the experts of a run.
struct CapacityOption {
  double factor = 1;  ///< largest number of tokens of an expert, as a multiple of the even share
  bool pads = false;  ///< true: every expert computes its capacity, whatever it receives
  bool masks = false;  ///< true: products with one-hot masks dispatch and combine the tokens
};
/// Returns the capacity in a text, for example a factor of 1.25 that pads for "dense_matmul,
/// capacity factor 1.25"; nothing if the text has none, or a factor outside of 0.1 to 1000 (MaxText
/// writes -1 for experts that drop nothing).
std::optional<CapacityOption> capacity_option(std::string_view text);

/// Returns the rank of the adapters if only adapters are trained, for example 16 for "llama2-70b
/// LoRA r16"; 16 if "LoRA" has no rank; 0 if the whole model is trained.
std::uint32_t adapter_rank(std::string_view model);

/// Returns the bytes of optimizer state for each parameter by the optimizer's name, including fp32
/// weights beside 16-bit ones; nothing for an unknown optimizer.
std::optional<double> optimizer_bytes(std::string_view name);

/// Returns the bytes of the loss for each logit (SoftwareStack.logit_bytes) by the name of a kind
/// of loss: 2 for "fused", 0 for "chunked", 16 for "plain"; nothing for another name.
std::optional<double> logit_bytes(std::string_view loss);

/// Returns the whole number (its first six digits) after the first occurrence of a word, as in
/// "shard group 64"; nothing if none follows or the number is 0.
std::optional<std::uint32_t> number_after(std::string_view text, std::string_view word);

}  // namespace orrery
