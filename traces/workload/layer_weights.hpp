// Weights of the layers of a described transformer, by its sizes. Implemented beside the other
// counts (model.cpp); called by the readers of model files, which count the parameters by owner.
// Pure functions; thread-safe. For example, attention without latents has 2 x hidden x head size x
// (heads + kv_heads) weights.
#pragma once

#include "traces/scenario.pb.h"

namespace orrery {

/// Returns the weights of one layer's attention, without biases and norms.
double attention_weights(const Model& model);
/// Returns the number of layers with experts.
double sparse_layers(const Model& model);

}  // namespace orrery
