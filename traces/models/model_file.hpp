// Model files of other tools: recognising and reading. Called by the scenario loader
// (`job.model.file`), by questions about layouts and by `orrery describe`. Thread-safe: no state
// between calls.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/schema/names.hpp"
#include "traces/models/decoder.hpp"
#include "traces/models/megatron_arguments.hpp"

namespace orrery {

/// Formats of model files.
enum class ModelFormat : std::uint8_t { hugging_face, megatron, torchtitan };
constexpr std::array<std::string_view, 3> names_of(ModelFormat) {
  return {"Hugging Face config.json", "arguments of Megatron-LM", "torchtitan TOML"};
}

/// Contents of a model file.
struct ModelFile {
  ModelFormat format = ModelFormat::hugging_face;
  Decoder decoder;
  NamedBatch batch;  ///< all 0 for a config.json
};

/// Returns the format of a text by its contents; nothing if it is no model.
std::optional<ModelFormat> model_format(std::string_view text);

/// Returns the contents of a model file of any known format. Throws bad_input with the place, also
/// for a text of no known format. `file` is for messages.
ModelFile parse_model_file(std::string_view text, const std::string& file);
/// Reads and parses the file at `path`. Throws bad_input too if the file cannot be read.
ModelFile read_model_file(const std::string& path);

/// Returns the multiply-adds of training one token, times two: forward and backward pass, causal
/// attention within sequences of this length, 1 at least (not checked), and within windows.
double training_flop_per_token(const Model& model, std::uint32_t sequence_length);

}  // namespace orrery
