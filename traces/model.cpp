#include "traces/model.hpp"

#include <string_view>

#include "core/error.hpp"

namespace orrery {

namespace embedded {
extern const std::string_view models_yaml;
}

namespace {

const ModelCatalog& catalog() {
  static const ModelCatalog loaded = [] {
    ModelCatalog models;
    load_yaml(embedded::models_yaml, "traces/catalog/models.yaml", models);
    return models;
  }();
  return loaded;
}

[[noreturn]] void fail(const SourceMap& places, const std::string& path, std::string message) {
  if (places.empty()) throw Error(ErrorKind::bad_input, path + ": " + message);
  throw Error(places.place(path), std::move(message));
}

const Model& preset(const std::string& name, const SourceMap& places, const std::string& path) {
  for (const ModelPreset& each : catalog().models()) {
    if (each.name() == name) return each.model();
  }
  fail(places, path + ".preset",
       "no model is named '" + name + "'" + did_you_mean(name, model_names()));
}

/// What a model by hand must say; `kv_heads` has a default.
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

}  // namespace

void resolve(Model& model, const SourceMap& places, const std::string& path) {
  if (!model.builtin().empty()) {
    if (!model.preset().empty() || model.layers() > 0 || model.hidden() > 0) {
      fail(places, path + ".builtin", "a built-in model has no preset and no shape of its own");
    }
    return;
  }
  if (!model.preset().empty()) {
    Model merged = preset(model.preset(), places, path);
    merged.MergeFrom(model);  // what is written beside the preset's name wins
    model = merged;
  }
  check_whole(model, places, path);
  if (model.kv_heads() == 0) model.set_kv_heads(model.heads());
  if (!model.has_gated()) model.set_gated(true);
  if (!model.has_tied_embeddings()) model.set_tied_embeddings(false);
  if (model.hidden() % model.heads() != 0) {
    fail(places, path + ".heads", "heads must divide hidden");
  }
  if (model.kv_heads() > model.heads() || model.heads() % model.kv_heads() != 0) {
    fail(places, path + ".kv_heads", "kv_heads must divide heads");
  }
}

double parameter_count(const Model& model) {
  if (!model.builtin().empty()) return static_cast<double>(builtin_parameter_count());
  const double hidden = model.hidden();
  const double head = hidden / model.heads();
  const double attention = 2 * hidden * hidden + 2 * hidden * model.kv_heads() * head;
  const double mlp = (model.gated() ? 3.0 : 2.0) * hidden * model.feed_forward();
  const double norms = 2 * hidden;
  const double tables = (model.tied_embeddings() ? 1.0 : 2.0) * model.vocabulary() * hidden;
  return model.layers() * (attention + mlp + norms) + tables + hidden;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const ModelPreset& each : catalog().models()) names.push_back(each.name());
  return names;
}

}  // namespace orrery
