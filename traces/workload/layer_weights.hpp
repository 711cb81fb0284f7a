// Weights of the layers of a described transformer, by its sizes. Implemented beside the other
// counts (model.cpp); called by the readers of model files, which count the parameters by owner.
// Pure functions; thread-safe. For example, attention without latents has 2 x hidden x head size x
// (heads + kv_heads) weights.
#pragma once

#include <cstdint>
#include <optional>

#include "traces/scenario.pb.h"

namespace orrery {

/// Returns the weights of one layer's attention, without biases and norms.
double attention_weights(const Model& model);
/// Returns the number of layers with experts.
double sparse_layers(const Model& model);
/// Returns the number of layers with experts among the first `end` layers.
std::uint32_t sparse_before(const Model& model, std::uint32_t end);
/// Returns the number of layers with a window of attention among the first `end` layers.
std::uint32_t windowed_before(const Model& model, std::uint32_t end);

/// Sets the pattern of `sparse` of `layers` layers with experts: every so-many-th (Experts.every).
/// Returns false if no such pattern has this number of layers: then the other layers are the first
/// ones (Experts.dense_layers).
bool spread_experts(Experts& experts, std::uint32_t layers, std::uint32_t sparse);
/// Returns the period of `windowed` of `layers` layers with a window (AttentionWindow.every), 0 if
/// all of them have one; nothing if no period has this number of layers. For example, 6 for 52 of
/// 62.
std::optional<std::uint32_t> window_period(std::uint32_t layers, std::uint32_t windowed);

}  // namespace orrery
