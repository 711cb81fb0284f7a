// Models by name, and their sizes. Called by the scenario loader, the step graph and live mode
// (which trains the built-in models). Thread-safe. Sizes are numbers of parameters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/schema/yaml_loader.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Replaces a preset name by the preset's fields (fields in the scenario take precedence) and
/// checks that a model without a preset is complete. `path` is the model's own ("job.model").
/// Idempotent; no effect on the model of a recorded program. Throws bad_input with the nearest
/// name, also for a missing key, for heads that do not divide `hidden`, and for a built-in model
/// with a preset or a shape.
void resolve(Model& model, const SourceMap& places, const std::string& path);

/// Returns the trainable parameters of a resolved model, with a tied embedding counted once. Throws
/// bad_input for an unknown built-in model.
double parameter_count(const Model& model);

/// Trainable parameters by class, as compression policies distinguish gradients (BucketClass in
/// traces/workload/gradient_codec.hpp).
struct GradientClasses {
  double matrices = 0, vectors = 0, embeddings = 0;
};
/// Returns the parameters by class. Throws as parameter_count() does.
GradientClasses gradient_classes(const Model& model);

/// Returns the size of one attention head (latent attention has sizes of its own).
double head_size(const Model& model);
/// Returns the inner size of one expert: its own, or that of the model's MLP.
double expert_feed_forward(const Model& model);

/// Returns the weights with which each token is multiplied: only the experts to which it is routed,
/// and of the vocabulary only the output projection. Not for built-in models.
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

/// Returns 129,472: embedding table, two matrices, two biases.
constexpr std::uint32_t builtin_parameter_count() {
  using M = BuiltinModel;
  return M::vocabulary * M::embedding + (M::context * M::embedding + 1) * M::hidden +
         (M::hidden + 1) * M::vocabulary;
}

/// Sizes of `builtin: transformer` (live/training/transformer.hpp): a byte-level decoder like the
/// models described by hand, with rotary positions, gated MLP and a separate output projection.
struct BuiltinTransformer {
  static constexpr std::uint32_t layers = 2;
  static constexpr std::uint32_t hidden = 64;
  static constexpr std::uint32_t heads = 4;
  static constexpr std::uint32_t feed_forward = 176;
  static constexpr std::uint32_t vocabulary = 256;
};

/// Cost of a built-in model, for each predicted byte unless a name says otherwise.
struct BuiltinCost {
  double parameters = 0;        ///< count of the whole model
  double forward_flop = 0;      ///< causal attention counts half
  double activations = 0;       ///< values kept for the backward pass
  std::uint32_t context = 0;    ///< bytes of a sequence before its first predicted byte
};

/// Returns the cost of a built-in model by name. Throws bad_input for an unknown name.
BuiltinCost builtin_cost(const std::string& name, std::uint32_t sequence_length);

/// Returns the names of all presets.
std::vector<std::string> model_names();

}  // namespace orrery
