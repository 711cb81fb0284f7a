// Models by name, and their sizes. Called by the scenario loader, the step graph and live mode
// (which trains the built-in model). Thread-safe. Sizes are counts of parameters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/schema/yaml_loader.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Replaces a preset name by the preset's fields (fields written beside it win) and checks that a
/// model by hand is whole. `path` is the model's own ("job.model"). Resolving twice changes
/// nothing. Throws bad_input with the nearest name.
void resolve(Model& model, const SourceMap& places, const std::string& path);

/// Trainable parameters of a resolved model, the embedding counted once if tied.
double parameter_count(const Model& model);

/// Sizes of the small byte-level language model that live mode trains (live/model.hpp): the last
/// `context` bytes are embedded, one hidden layer, 256-way softmax.
struct BuiltinModel {
  static constexpr std::uint32_t embedding = 24;
  static constexpr std::uint32_t context = 16;
  static constexpr std::uint32_t hidden = 192;
  static constexpr std::uint32_t vocabulary = 256;
};

/// 129,472: embedding table, two matrices, two biases.
constexpr std::uint32_t builtin_parameter_count() {
  using M = BuiltinModel;
  return M::vocabulary * M::embedding + (M::context * M::embedding + 1) * M::hidden +
         (M::hidden + 1) * M::vocabulary;
}

std::vector<std::string> model_names();

}  // namespace orrery
