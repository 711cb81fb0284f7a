#include "traces/workload/model.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include "core/error.hpp"
#include "core/schema/embedded_message.hpp"
#include "traces/workload/job_choices.hpp"
#include "traces/workload/layer_weights.hpp"

namespace orrery {

namespace embedded {
extern const std::string_view models_catalog;
}

namespace {

const ModelCatalog& catalog() {
  static const auto loaded = read_embedded<ModelCatalog>(embedded::models_catalog);
  return loaded;
}

[[noreturn]] void fail(const SourceMap& places, const std::string& path, std::string message) {
  if (places.empty()) throw Error(ErrorKind::bad_input, path + ": " + message);
  throw Error(places.place_of(path), std::move(message));
}

const Model& preset(const std::string& name, const SourceMap& places, const std::string& path) {
  for (const ModelPreset& each : catalog().models()) {
    if (each.name() == name) return each.model();
  }
  fail(places, path + ".preset",
       "no model is named '" + name + "'" + did_you_mean(name, model_names()));
}

/// Checks the required keys of a model without a preset; `kv_heads` has a default.
void check_whole(const Model& model, const SourceMap& places, const std::string& path) {
  const auto need = [&](bool present, const char* key) {
    if (!present) {
      fail(places, path, std::string("a model without preset or builtin needs '") + key + "'");
    }
  };
  need(model.layers() > 0, "layers");
  need(model.hidden() > 0, "hidden");
  need(model.heads() > 0, "heads");
  need(model.feed_forward() > 0, "feed_forward");
  need(model.vocabulary() > 0, "vocabulary");
}

double mlp_weights(const Model& model, double inner) {
  return (model.gated() ? 3.0 : 2.0) * model.hidden() * inner;
}

/// Router, shared experts and `routed` of the others.
double sparse_weights(const Model& model, double routed) {
  const Experts& experts = model.experts();
  return double{1} * model.hidden() * experts.count() +
         (experts.shared() + routed) * mlp_weights(model, expert_feed_forward(model));
}

}  // namespace

double attention_weights(const Model& model) {
  const double hidden = model.hidden(), heads = model.heads();
  if (!model.has_latent_attention()) {
    return 2 * hidden * head_size(model) * (heads + model.kv_heads());
  }
  const LatentAttention& latent = model.latent_attention();
  const double query_rank = latent.query_rank(), key_value_rank = latent.key_value_rank();
  const double query = heads * (double{1} * latent.plain() + latent.rotary());
  return (query_rank > 0 ? query_rank * (hidden + query) : hidden * query) +
         hidden * (key_value_rank + latent.rotary()) +
         key_value_rank * heads * (double{1} * latent.plain() + latent.value()) +
         heads * latent.value() * hidden;
}

double sparse_layers(const Model& model) { return sparse_before(model, model.layers()); }

std::uint32_t sparse_before(const Model& model, std::uint32_t end) {
  if (!model.has_experts()) return 0;
  const std::uint32_t dense = std::min(end, model.experts().dense_layers());
  return (end - dense) / std::max(1u, model.experts().every());
}

std::uint32_t windowed_before(const Model& model, std::uint32_t end) {
  if (!model.has_window()) return 0;
  return model.window().every() == 0 ? end : end - end / model.window().every();
}

bool spread_experts(Experts& experts, std::uint32_t layers, std::uint32_t sparse) {
  const std::uint32_t every = sparse > 0 ? layers / sparse : 0;
  const bool is_even = every > 0 && layers / every == sparse;
  if (is_even && every > 1) experts.set_every(every);
  experts.set_dense_layers(is_even ? 0 : layers - std::min(layers, sparse));
  return is_even;
}

std::optional<std::uint32_t> window_period(std::uint32_t layers, std::uint32_t windowed) {
  if (windowed >= layers) return 0;
  const std::uint32_t full = layers - windowed, period = layers / full;
  if (layers / period != full) return std::nullopt;
  return period;
}

void resolve(Model& model, const SourceMap& places, const std::string& path) {
  if (model.has_recorded()) return;
  if (!model.builtin().empty()) {
    if (!model.preset().empty() || model.layers() > 0 || model.hidden() > 0) {
      fail(places, path + ".builtin", "a built-in model has no preset and no shape of its own");
    }
    return;
  }
  if (!model.preset().empty()) {
    Model merged = preset(model.preset(), places, path);
    merged.MergeFrom(model);  // values in the file override the preset
    model = merged;
  }
  check_whole(model, places, path);
  if (model.kv_heads() == 0) model.set_kv_heads(model.heads());
  if (!model.has_gated()) model.set_gated(true);
  if (!model.has_tied_embeddings()) model.set_tied_embeddings(false);
  if (model.head_size() == 0 && !model.has_latent_attention() &&
      model.hidden() % model.heads() != 0) {
    fail(places, path + ".heads", "heads must divide hidden, or head_size must be given");
  }
  if (model.kv_heads() > model.heads() || model.heads() % model.kv_heads() != 0) {
    fail(places, path + ".kv_heads", "kv_heads must divide heads");
  }
}

double head_size(const Model& model) {
  return model.head_size() > 0 ? model.head_size() : double{1} * model.hidden() / model.heads();
}

double expert_feed_forward(const Model& model) {
  const std::uint32_t own = model.experts().feed_forward();
  return own > 0 ? own : model.feed_forward();
}

double active_weights(const Model& model) {
  const double layers = model.layers(), sparse = sparse_layers(model);
  return layers * attention_weights(model) +
         (layers - sparse) * mlp_weights(model, model.feed_forward()) +
         sparse * sparse_weights(model, model.experts().top_k()) +
         double{1} * model.vocabulary() * model.hidden();
}

double parameter_count(const Model& model) {
  if (model.has_recorded()) {
    const RecordedParameters& all = model.recorded();
    return all.matrices() + all.vectors() + all.embeddings();
  }
  if (!model.builtin().empty()) return builtin_cost(model.builtin(), 1).parameters;
  const double layers = model.layers(), sparse = sparse_layers(model), hidden = model.hidden();
  const LatentAttention& latent = model.latent_attention();
  const double norms = 2 * hidden + latent.query_rank() + latent.key_value_rank();
  const double tables = (model.tied_embeddings() ? 1.0 : 2.0) * model.vocabulary() * hidden;
  return layers * (attention_weights(model) + norms) +
         (layers - sparse) * mlp_weights(model, model.feed_forward()) +
         sparse * sparse_weights(model, model.experts().count()) + tables + hidden;
}

GradientClasses gradient_classes(const Model& model) {
  GradientClasses out;
  if (model.has_recorded()) {
    const RecordedParameters& all = model.recorded();
    return {.matrices = all.matrices(), .vectors = all.vectors(), .embeddings = all.embeddings()};
  }
  if (builtin_kind(model) == BuiltinKind::language_model) {
    using M = BuiltinModel;
    out.embeddings = double{M::vocabulary} * M::embedding;
    out.vectors = double{M::hidden} + M::vocabulary;
  } else if (builtin_kind(model) == BuiltinKind::transformer) {
    using M = BuiltinTransformer;
    out.embeddings = double{M::vocabulary} * M::hidden;
    out.vectors = (2.0 * M::layers + 1) * M::hidden;
  } else {
    out.embeddings = double{1} * model.vocabulary() * model.hidden();
    out.vectors = (2.0 * model.layers() + 1) * model.hidden();
  }
  out.matrices = parameter_count(model) - out.vectors - out.embeddings;
  return out;
}

BuiltinCost builtin_cost(const std::string& name, std::uint32_t sequence_length) {
  const std::optional<BuiltinKind> kind = find_named<BuiltinKind>(name);
  if (kind == BuiltinKind::language_model) {
    using M = BuiltinModel;
    const double table = double{M::vocabulary} * M::embedding;
    return {.parameters = builtin_parameter_count(),
            .forward_flop = 2 * (builtin_parameter_count() - table),
            .activations = M::context * M::embedding + 2.0 * M::hidden + 2.0 * M::vocabulary,
            .context = M::context};
  }
  if (!kind) fail({}, "job.model.builtin", "no built-in model is named so");
  using M = BuiltinTransformer;
  const double hidden = M::hidden, layers = M::layers;
  const double matrices =
      layers * (4 * hidden * hidden + 3 * hidden * M::feed_forward) + hidden * M::vocabulary;
  const double norms = (2 * layers + 1) * hidden;
  // A layer keeps two normalised inputs, the inputs of its products, its scores, gate and up; the
  // end keeps a normalised input and the logits.
  const double scores = double{M::heads} * sequence_length;
  const double layer = 8 * hidden + 3.0 * M::feed_forward + scores;
  return {.parameters = matrices + norms + hidden * M::vocabulary,
          .forward_flop = 2 * matrices + 2 * layers * sequence_length * hidden,
          .activations = layers * layer + 2 * hidden + M::vocabulary,
          .context = 1};
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const ModelPreset& each : catalog().models()) names.push_back(each.name());
  return names;
}

}  // namespace orrery
