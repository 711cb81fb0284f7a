#include "traces/models/decoder.hpp"

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "traces/workload/layer_weights.hpp"
#include "traces/workload/model.hpp"

namespace orrery {
namespace {

/// Sizes of a decoder as floating-point numbers.
struct Sizes {
  explicit Sizes(const Model& model)
      : layers(model.layers()),
        sparse(sparse_layers(model)),
        hidden(model.hidden()),
        heads(model.heads()),
        kv_heads(model.kv_heads()),
        head(head_size(model)),
        value(head),
        inner(model.feed_forward()),
        expert(expert_feed_forward(model)),
        matrices(model.gated() ? 2 : 1) {
    if (!model.has_latent_attention()) return;
    head = double{1} * model.latent_attention().plain() + model.latent_attention().rotary();
    value = model.latent_attention().value();
  }

  double layers, sparse, hidden, heads, kv_heads;
  double head, value;
  double inner, expert;
  double matrices;  ///< matrices of an MLP's first product
};

double norm_parameters(const Decoder& decoder, const Sizes& s) {
  const SmallParameters& small = decoder.small;
  const LatentAttention& latent = decoder.model.latent_attention();
  const double wide = s.layers * small.layer_norms * s.hidden + (small.final_norm ? s.hidden : 0) +
                      (small.embedding_norm ? s.hidden : 0);
  const double latents = s.layers * (latent.query_rank() + latent.key_value_rank());
  double heads = 0;
  if (small.head_norm == HeadNorm::shared) heads = 2 * s.head;
  if (small.head_norm == HeadNorm::whole) heads = (s.heads + s.kv_heads) * s.head;
  return small.norm_values * wide + latents + s.layers * heads * small.head_norm_values;
}

/// Latent attention adds its biases where the latents are made.
double query_biases(const Model& model, const Sizes& s) {
  if (!model.has_latent_attention()) return s.heads * s.head + s.kv_heads * (s.head + s.value);
  const LatentAttention& latent = model.latent_attention();
  return double{1} * latent.query_rank() + latent.key_value_rank() + latent.rotary();
}

double bias_parameters(const Decoder& decoder, const Sizes& s) {
  const SmallParameters& small = decoder.small;
  const Experts& experts = decoder.model.experts();
  double layer = small.activation;
  if (small.query_bias) layer += query_biases(decoder.model, s);
  if (small.output_bias) layer += s.hidden;
  if (small.sinks) layer += s.heads;
  double dense = 0, sparse = 0;
  if (small.mlp_bias) dense += s.matrices * s.inner + s.hidden;
  if (small.router_bias) sparse += experts.count();
  if (small.expert_bias) sparse += experts.count() * (s.matrices * s.expert + s.hidden);
  if (small.shared_gate) sparse += s.hidden;
  return s.layers * layer + (s.layers - s.sparse) * dense + s.sparse * sparse +
         (small.vocabulary_bias ? decoder.model.vocabulary() : 0);
}

}  // namespace

ParameterCounts count_parameters(const Decoder& decoder) {
  const Model& model = decoder.model;
  const SmallParameters& small = decoder.small;
  const Sizes s(model);
  const bool narrow = small.embedding_size > 0 && small.embedding_size != s.hidden;
  const double row = narrow ? small.embedding_size : s.hidden;
  const double table = row * model.vocabulary();
  ParameterCounts out;
  out.embedding = table + small.positions * s.hidden + (narrow ? 2 * row * s.hidden : 0);
  out.output = model.tied_embeddings() ? 0 : table;
  out.attention = s.layers * attention_weights(model);
  out.mlp = (s.layers - s.sparse) * (s.matrices + 1) * s.hidden * s.inner;
  out.router = s.sparse * s.hidden * model.experts().count();
  out.experts = s.sparse * model.experts().count() * (s.matrices + 1) * s.hidden * s.expert;
  out.shared_experts = s.sparse * (s.matrices + 1) * s.hidden * small.shared_inner;
  out.norms = norm_parameters(decoder, s);
  out.biases = bias_parameters(decoder, s);
  return out;
}

void finish_decoder(Decoder& decoder, const std::string& file) {
  try {
    resolve(decoder.model, SourceMap{}, "model");
  } catch (const Error& error) {
    throw Error(SourcePlace{.file = file, .line_text = ""}, error.message());
  }
}

}  // namespace orrery
