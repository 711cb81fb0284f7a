#include "traces/models/model_file.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/schema/yaml_tree.hpp"
#include "traces/files/csv.hpp"
#include "traces/models/hugging_face.hpp"
#include "traces/models/torchtitan_toml.hpp"
#include "traces/workload/layer_weights.hpp"
#include "traces/workload/model.hpp"

namespace orrery {

std::optional<ModelFormat> model_format(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin != std::string_view::npos && text[begin] == '{') {
    const bool is_model = text.find("\"model_type\"") != std::string_view::npos ||
                          text.find("\"architectures\"") != std::string_view::npos;
    return is_model ? std::optional(ModelFormat::hugging_face) : std::nullopt;
  }
  if (has_megatron_arguments(text)) return ModelFormat::megatron;
  if (has_torchtitan_model(text)) return ModelFormat::torchtitan;
  return std::nullopt;
}

ModelFile parse_model_file(std::string_view text, const std::string& file) {
  const std::optional<ModelFormat> format = model_format(text);
  if (!format) {
    throw Error(place_in(text, file, 1, 1),
                "expected a model: a config.json of Hugging Face with 'model_type', arguments of "
                "Megatron-LM with --num-layers and --hidden-size, or a torchtitan TOML with "
                "[model] and flavor (orrery.torchtitan writes one from a Python configuration)");
  }
  ModelFile out{.format = *format, .decoder = {}, .batch = {}};
  switch (*format) {
    case ModelFormat::hugging_face: out.decoder = read_hugging_face(text, file); break;
    case ModelFormat::megatron: out.decoder = read_megatron_arguments(text, file, out.batch); break;
    case ModelFormat::torchtitan: out.decoder = read_torchtitan(text, file, out.batch); break;
  }
  return out;
}

ModelFile read_model_file(const std::string& path) {
  return parse_model_file(read_packed_text(path), path);
}

double training_flop_per_token(const Model& model, std::uint32_t sequence_length) {
  double head = 2 * head_size(model);
  if (model.has_latent_attention()) {
    const LatentAttention& latent = model.latent_attention();
    head = double{1} * latent.plain() + latent.rotary() + latent.value();
  }
  const double sequence = sequence_length;
  const double window = std::min(sequence, double{1} * model.window().size());
  const double windowed = windowed_before(model, model.layers());
  const double reach =  // twice the mean number of tokens before a token, summed over layers
      (model.layers() - windowed) * sequence +
      (windowed > 0 ? windowed * window * (2 - window / sequence) : 0);
  const double attention = reach * model.heads() * head;
  return 3 * (2 * active_weights(model) + attention);
}

}  // namespace orrery
