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

/// The same by what the parameters are, as compression policies tell gradients apart
/// (BucketClass in traces/training/gradient_codec.hpp).
struct GradientClasses {
  double matrices = 0, vectors = 0, embeddings = 0;
};
GradientClasses gradient_classes(const Model& model);

/// Size of one attention head (latent attention has sizes of its own), and of one expert's inside.
double head_size(const Model& model);
double expert_feed_forward(const Model& model);

/// Weights that each token is multiplied with: of the experts those that it is routed to, of the
/// vocabulary the output projection.
double active_weights(const Model& model);

/// Sizes of `builtin: language-model`, a small byte-level model that live mode trains
/// (live/training/model.hpp): the last `context` bytes are embedded, one hidden layer, 256-way
/// softmax.
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

/// Sizes of `builtin: transformer` (live/training/transformer.hpp): a byte-level decoder in the
/// shape of the models by hand, with rotary positions, gated MLP and an output projection of its
/// own.
struct BuiltinTransformer {
  static constexpr std::uint32_t layers = 2;
  static constexpr std::uint32_t hidden = 64;
  static constexpr std::uint32_t heads = 4;
  static constexpr std::uint32_t feed_forward = 176;
  static constexpr std::uint32_t vocabulary = 256;
};

/// What a built-in model costs, per predicted byte unless a name says otherwise.
struct BuiltinCost {
  double parameters = 0;        ///< of the whole model
  double forward_flop = 0;      ///< causal attention at half
  double activations = 0;       ///< values kept for the backward pass
  std::uint32_t context = 0;    ///< bytes of a sequence before its first predicted one
};

/// Cost of a built-in model by name. Throws bad_input for an unknown name.
BuiltinCost builtin_cost(const std::string& name, std::uint32_t sequence_length);

std::vector<std::string> model_names();

}  // namespace orrery
