// Names of the kernels of a training step. The cost model prices some of them by their name, and a
// collective names the kernel beside which it runs (BlockCollective::beside). Called by the writers
// of steps, by the cost model and by the price server. Pure functions; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/schema/names.hpp"

namespace orrery {

/// Names of kernels. `plain` is a stream through memory without a name. The suffixes dgrad and
/// wgrad are the gradients of a product's data and weights. The values are in the order of the
/// names, so that a map by value sums its times in this order too.
enum class KernelName : std::uint8_t {
  plain, activation, adam, adapter, attention, attention_backward, attention_scores,
  attention_scores_dgrad, attention_scores_wgrad, attention_values, attention_values_dgrad,
  attention_values_wgrad, cast, dropout, embedding, embedding_backward, expert_down,
  expert_down_dgrad, expert_down_wgrad, expert_up, expert_up_dgrad, expert_up_wgrad,
  key_value_down, key_value_down_dgrad, key_value_down_wgrad, key_value_up, key_value_up_dgrad,
  key_value_up_wgrad, loss, loss_backward, mlp_down, mlp_down_dgrad, mlp_down_wgrad, mlp_up,
  mlp_up_dgrad, mlp_up_wgrad, norm, permute, projection, projection_dgrad, projection_wgrad,
  qkv, qkv_dgrad, qkv_wgrad, query, query_dgrad, query_down, query_down_dgrad, query_down_wgrad,
  query_up, query_up_dgrad, query_up_wgrad, query_wgrad, residual, rotary, router, router_dgrad,
  router_wgrad, routing, shared_down, shared_down_dgrad, shared_down_wgrad, shared_up,
  shared_up_dgrad, shared_up_wgrad, softmax, vocabulary, vocabulary_dgrad, vocabulary_wgrad
};
constexpr std::array<std::string_view, 69> names_of(KernelName) {
  return {"", "activation", "adam", "adapter", "attention", "attention_backward",
          "attention_scores", "attention_scores_dgrad", "attention_scores_wgrad",
          "attention_values", "attention_values_dgrad", "attention_values_wgrad", "cast",
          "dropout", "embedding", "embedding_backward", "expert_down", "expert_down_dgrad",
          "expert_down_wgrad", "expert_up", "expert_up_dgrad", "expert_up_wgrad",
          "key_value_down", "key_value_down_dgrad", "key_value_down_wgrad", "key_value_up",
          "key_value_up_dgrad", "key_value_up_wgrad", "loss", "loss_backward", "mlp_down",
          "mlp_down_dgrad", "mlp_down_wgrad", "mlp_up", "mlp_up_dgrad", "mlp_up_wgrad",
          "norm", "permute", "projection", "projection_dgrad", "projection_wgrad", "qkv",
          "qkv_dgrad", "qkv_wgrad", "query", "query_dgrad", "query_down",
          "query_down_dgrad", "query_down_wgrad", "query_up", "query_up_dgrad",
          "query_up_wgrad", "query_wgrad", "residual", "rotary", "router", "router_dgrad",
          "router_wgrad", "routing", "shared_down", "shared_down_dgrad",
          "shared_down_wgrad", "shared_up", "shared_up_dgrad", "shared_up_wgrad", "softmax",
          "vocabulary", "vocabulary_dgrad", "vocabulary_wgrad"};
}

/// Entries of attention kernels of the second generation (flash_attn before its third version).
constexpr std::string_view kFlash2 = "attention_flash_2";
constexpr std::string_view kFlash2Backward = "attention_flash_2_backward";

/// Returns true for an entry of attention kernels of the second generation.
constexpr bool is_flash_2(std::string_view entry) {
  return entry == kFlash2 || entry == kFlash2Backward;
}

/// Returns the name of the kernel that has an entry of the kernel tables (RecordedKernel.entry) of
/// its own; `plain` for any other text. For example, "norm" has an entry and "softmax" has none.
constexpr KernelName kernel_entry(std::string_view entry) {
  if (entry == kFlash2) return KernelName::attention;
  if (entry == kFlash2Backward) return KernelName::attention_backward;
  const KernelName name = find_named<KernelName>(entry).value_or(KernelName::plain);
  switch (name) {
    case KernelName::norm:
    case KernelName::activation:
    case KernelName::rotary:
    case KernelName::embedding:
    case KernelName::attention:
    case KernelName::attention_backward: return name;
    default: return KernelName::plain;
  }
}

}  // namespace orrery
