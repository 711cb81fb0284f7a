#include "traces/models/hugging_face.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/config_keys.hpp"
#include "traces/models/decoder_families.hpp"
#include "traces/workload/layer_weights.hpp"
#include "traces/workload/model.hpp"

namespace orrery {
namespace {

// Ranges of the schema (traces/scenario.proto).
constexpr std::uint32_t kMostLayers = 10'000, kMostHidden = 1'000'000, kMostHeads = 10'000,
                        kMostInner = 10'000'000, kMostVocabulary = 100'000'000,
                        kMostHeadSize = 10'000, kMostExperts = 100'000, kMostTopK = 1'000;

/// Keys that hold the text model of a model with several parts.
constexpr std::array<std::string_view, 3> kTextParts = {"text_config", "llm_config",
                                                        "language_config"};

/// Types that are another one's under a name of their own.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kSameAs{{
    {"gemma3", "gemma3_text"},
    {"kimi_k2", "deepseek_v3"},
    {"llama4", "llama4_text"},
    {"qwen2_vl_text", "qwen2"},
    {"qwen3_vl_moe_text", "qwen3_moe"},
    {"qwen3_vl_text", "qwen3"},
}};

std::string family_name(const std::string& type) {
  for (const auto& [name, family] : kSameAs) {
    if (name == type) return std::string(family);
  }
  return type;
}

const DecoderFamily& family_of(const ConfigKeys& keys) {
  const std::string type = keys.word("model_type");
  if (type.empty()) {
    keys.throw_error("", "expected the key 'model_type' in the config.json of a model, found none");
  }
  const std::string_view reason = refused_model_type(type);
  if (!reason.empty()) {
    keys.throw_error("model_type",
                     fmt::format("expected a decoder of attention and MLP layers, found "
                                 "'{}': {}",
                                 shown(type), reason));
  }
  const std::string name = family_name(type);
  for (const DecoderFamily& each : decoder_families()) {
    if (each.name == name) return each;
  }
  const std::vector<std::string> known = model_families();
  std::string hint = did_you_mean(name, known);
  if (hint.empty()) hint = "; docs/models.md lists the known ones";
  keys.throw_error("model_type", fmt::format("expected a known family of models, found '{}'{}",
                                             shown(type), hint));
}

/// Reader of the keys of one family into a decoder.
class FamilyReader {
 public:
  FamilyReader(const ConfigKeys& keys, const DecoderFamily& family)
      : keys_(keys), family_(family) {}

  Decoder read() {
    out_.family = family_.name;
    read_sizes();
    read_attention();
    read_experts();
    read_vectors();
    if (family_.name == "falcon") read_falcon();
    if (family_.name == "opt") read_opt();
    read_window();
    if (is_parallel()) {
      out_.assumed.emplace_back(
          "attention and MLP, which run in parallel, priced one after the "
          "other");
    }
    if (keys_.count({"num_nextn_predict_layers"}, kMostLayers).value_or(0) > 0) {
      out_.assumed.emplace_back("without the modules of multi-token prediction");
    }
    return std::move(out_);
  }

 private:
  bool is_parallel() const {
    if (family_.name == "falcon") return keys_.is_true("parallel_attn", true);
    return family_.parallel || keys_.is_true("use_parallel_residual", family_.name == "gpt_neox");
  }
  bool is_on(const Switch& of) const { return keys_.is_true(of.key, of.usual); }
  std::uint32_t required_or(ConfigKeys::Names names, std::uint32_t most, std::uint32_t usual) {
    if (usual > 0 && !keys_.count(names, most)) return usual;
    return keys_.required(names, most);
  }
  void read_sizes();
  void read_attention();
  void read_latent_attention();
  void read_experts();
  void read_shared_experts();
  std::uint32_t sparse_layers() const;
  void read_vectors();
  void read_falcon();
  void read_opt();
  void read_window();

  const ConfigKeys& keys_;
  const DecoderFamily& family_;
  Decoder out_;
};

void FamilyReader::read_sizes() {
  Model& model = out_.model;
  model.set_layers(keys_.required({family_.layers, "num_hidden_layers"}, kMostLayers));
  model.set_hidden(keys_.required({family_.hidden, "hidden_size", "n_embed"}, kMostHidden));
  model.set_heads(
      required_or({family_.heads, "num_attention_heads"}, kMostHeads, family_.usual.heads));
  model.set_vocabulary(required_or({"vocab_size"}, kMostVocabulary, family_.usual.vocabulary));
  const std::string_view inner =
      family_.experts.count.empty() ? family_.inner : family_.experts.dense_inner;
  if (family_.four_times && (inner.empty() || !keys_.has(inner))) {
    const std::uint32_t ratio = keys_.count({"expansion_ratio"}, 100).value_or(4);
    model.set_feed_forward(std::min(kMostInner, std::max(1u, ratio) * model.hidden()));
  } else {
    model.set_feed_forward(keys_.required({inner}, kMostInner));
  }
  model.set_gated(family_.gated);
  model.set_tied_embeddings(keys_.is_true("tie_word_embeddings", family_.tied));
}

void FamilyReader::read_attention() {
  if (family_.latent) return read_latent_attention();
  Model& model = out_.model;
  std::uint32_t kv_heads = family_.usual.kv_heads > 0 ? family_.usual.kv_heads : model.heads();
  if (!family_.kv_heads.empty()) {
    kv_heads = keys_.count({family_.kv_heads}, kMostHeads).value_or(kv_heads);
  } else if (family_.name == "gpt_bigcode" && keys_.is_true("multi_query", true)) {
    kv_heads = 1;
  }
  if (kv_heads == 0 || kv_heads > model.heads() || model.heads() % kv_heads != 0) {
    keys_.throw_error(family_.kv_heads,
                      fmt::format("expected key-value heads that divide the {} heads, "
                                  "found {}",
                                  model.heads(), kv_heads));
  }
  model.set_kv_heads(kv_heads);
  const std::uint32_t usual =
      family_.head_size > 0 ? family_.head_size : std::max(1u, model.hidden() / model.heads());
  const std::uint32_t size = keys_.count({"head_dim"}, kMostHeadSize).value_or(usual);
  if (size == 0) keys_.throw_error("head_dim", "expected at least 1 for 'head_dim'");
  if (size * double{1} * model.heads() != model.hidden()) model.set_head_size(size);
}

void FamilyReader::read_latent_attention() {
  LatentAttention& latent = *out_.model.mutable_latent_attention();
  latent.set_query_rank(keys_.count({"q_lora_rank"}, kMostHidden).value_or(0));
  latent.set_key_value_rank(keys_.required({"kv_lora_rank"}, kMostHidden));
  latent.set_plain(keys_.required({"qk_nope_head_dim"}, kMostHeadSize));
  latent.set_rotary(keys_.required({"qk_rope_head_dim"}, kMostHeadSize));
  latent.set_value(keys_.required({"v_head_dim"}, kMostHeadSize));
  out_.model.set_kv_heads(out_.model.heads());
}

std::uint32_t FamilyReader::sparse_layers() const {
  const std::uint32_t layers = out_.model.layers();
  const auto count = [&](std::string_view key, std::uint32_t usual) {
    return keys_.count({key}, kMostLayers).value_or(usual);
  };
  const auto step = [&](std::string_view key) {
    const std::uint32_t value = count(key, 1);
    if (value == 0) keys_.throw_error(key, fmt::format("expected at least 1 for '{}'", key));
    return value;
  };
  switch (family_.experts.layers) {
    case SparseLayers::all: return layers;
    case SparseLayers::after_first:
      if (step("moe_layer_freq") > 1)
        keys_.throw_error("moe_layer_freq",
                          "expected 1: other layers of "
                          "this family have no known pattern");
      return layers - std::min(layers, count("first_k_dense_replace", 0));
    case SparseLayers::interleaved:
      if (keys_.has("moe_layers")) {
        const auto named = static_cast<std::uint32_t>(keys_.words("moe_layers").size());
        return std::min(layers, named);
      }
      return layers / step("interleave_moe_layer_step");
    case SparseLayers::range: {
      const std::uint32_t each = step("moe_layer_interval");
      const std::uint32_t end = std::min(count("moe_layer_end_index", layers - 1), layers - 1);
      std::uint32_t sum = 0;
      for (std::uint32_t i = count("moe_layer_start_index", 0); i <= end; ++i) {
        sum += (i + 1) % each == 0 ? 1 : 0;
      }
      return sum;
    }
    case SparseLayers::every_nth: break;
  }
  const std::vector<std::string> plain = keys_.words("mlp_only_layers");
  const std::set<std::string> dense(plain.begin(), plain.end());
  const std::uint32_t each = step("decoder_sparse_step");
  std::uint32_t sum = 0;
  for (std::uint32_t i = 0; i < layers; ++i) {
    sum += (i + 1) % each == 0 && !dense.contains(std::to_string(i)) ? 1 : 0;
  }
  return sum;
}

void FamilyReader::read_experts() {
  const ExpertKeys& named = family_.experts;
  if (named.count.empty()) return;
  Model& model = out_.model;
  const std::uint32_t count =
      keys_.count({named.count, named.other_count}, kMostExperts).value_or(0);
  if (count == 1) {
    keys_.throw_error(named.count,
                      "expected at least 2 experts; write a dense model's family for one");
  }
  const std::uint32_t sparse = count == 0 ? 0 : sparse_layers();
  if (sparse == 0) return;
  Experts& experts = *model.mutable_experts();
  experts.set_count(count);
  experts.set_top_k(keys_.required({named.top_k}, kMostTopK));
  if (experts.top_k() > count) {
    keys_.throw_error(named.top_k,
                      fmt::format("expected at most the {} experts of a layer, found {}", count,
                                  experts.top_k()));
  }
  experts.set_feed_forward(keys_.required({named.inner}, kMostInner));
  const std::uint32_t dense = model.layers() - sparse;
  const bool has_first =
      named.layers == SparseLayers::after_first ||
      (named.layers == SparseLayers::range &&
       keys_.count({"moe_layer_start_index"}, kMostLayers).value_or(0) == dense);
  experts.set_dense_layers(dense);
  if (!has_first && dense > 0 && !spread_experts(experts, model.layers(), sparse)) {
    out_.assumed.push_back(
        fmt::format("the {} layers without experts priced as the first ones", dense));
  }
  out_.small.router_bias = named.router_bias;
  out_.small.expert_bias = named.expert_bias;
  out_.small.shared_gate = named.shared_gate;
  read_shared_experts();
}

/// Shared experts of a size that is no multiple of a routed expert's are rounded up.
void FamilyReader::read_shared_experts() {
  const ExpertKeys& named = family_.experts;
  Experts& experts = *out_.model.mutable_experts();
  if (named.shared_inner.empty()) {
    std::uint32_t count = named.usual_shared;
    if (!named.shared_count.empty()) count = keys_.count({named.shared_count}, 1000).value_or(0);
    experts.set_shared(count);
    out_.small.shared_inner = double{1} * count * experts.feed_forward();
    return;
  }
  const std::uint32_t inner = keys_.count({named.shared_inner}, kMostInner).value_or(0);
  const std::uint32_t one = experts.feed_forward();
  const std::uint32_t count = inner / one + (inner % one > 0 ? 1 : 0);
  if (count > 1000) {
    keys_.throw_error(named.shared_inner,
                      fmt::format("expected at most the size of 1000 experts of {} "
                                  "together, found {}",
                                  one, inner));
  }
  experts.set_shared(count);
  out_.small.shared_inner = inner;
  if (inner % one == 0) return;
  out_.assumed.push_back(
      fmt::format("shared experts of inner size {} priced as {} of size {}", inner, count, one));
}

void FamilyReader::read_vectors() {
  SmallParameters& small = out_.small;
  small.norm_values = family_.norm_values;
  small.layer_norms = family_.layer_norms;
  if (family_.name == "stablelm" && is_parallel()) small.layer_norms = 1;
  small.embedding_norm = family_.embedding_norm;
  if (is_on(family_.head_norms)) small.head_norm = family_.head_norm;
  small.head_norm_values = family_.head_norm_values;
  small.query_bias = is_on(family_.query_bias);
  small.output_bias = is_on(family_.output_bias);
  small.mlp_bias = is_on(family_.mlp_bias);
  small.vocabulary_bias = is_on(family_.vocabulary_bias);
  small.sinks = family_.sinks;
  small.activation = family_.activation;
  if (!family_.positions.empty()) {
    small.positions =
        double{1} * keys_.required({family_.positions}, kMostVocabulary) + family_.more_positions;
  }
  if (small.sinks) out_.assumed.emplace_back("the sinks of attention counted, not priced");
}

/// Key-value heads and norms depend on several keys (modeling of the first two generations).
void FamilyReader::read_falcon() {
  const bool grouped = keys_.is_true("new_decoder_architecture", false);
  std::uint32_t kv_heads = keys_.is_true("multi_query", true) ? 1 : out_.model.heads();
  if (grouped) kv_heads = keys_.required({"num_kv_heads", "n_head_kv"}, kMostHeads);
  if (out_.model.heads() % kv_heads != 0) {
    keys_.throw_error("num_kv_heads",
                      fmt::format("expected key-value heads that divide the {} heads, "
                                  "found {}",
                                  out_.model.heads(), kv_heads));
  }
  out_.model.set_kv_heads(kv_heads);
  const std::uint32_t norms = keys_.count({"num_ln_in_parallel_attn"}, 2).value_or(grouped ? 2 : 1);
  out_.small.layer_norms = !is_parallel() || norms == 2 ? 2 : 1;
}

void FamilyReader::read_opt() {
  if (!keys_.is_true("layer_norm_elementwise_affine", true)) out_.small.norm_values = 0;
  out_.small.final_norm = keys_.is_true("do_layer_norm_before", true) &&
                          !keys_.is_true("_remove_final_layer_norm", false);
  const std::uint32_t size =
      keys_.count({"word_embed_proj_dim"}, kMostHidden).value_or(out_.model.hidden());
  if (size == 0 || size == out_.model.hidden()) return;
  out_.small.embedding_size = size;
  out_.assumed.push_back(
      fmt::format("an embedding of size {} priced as one of size {}", size, out_.model.hidden()));
}

/// Windows whose layers have no period (AttentionWindow.every) are left out, which is an
/// assumption. Layers of another kind are refused.
void FamilyReader::read_window() {
  std::uint32_t windows = 0, all = 0;
  const char* const list = keys_.has("layer_types") ? "layer_types" : "attention_layers";
  for (const std::string& kind : keys_.words(list)) {
    ++all;
    if (kind == "sliding_attention" || kind == "chunked_attention" || kind == "local") {
      ++windows;
    } else if (kind != "full_attention" && kind != "global") {
      keys_.throw_error(
          list,
          fmt::format("expected layers of full or windowed attention, found '{}'", shown(kind)));
    }
  }
  const std::string_view key =
      keys_.has("attention_chunk_size") ? "attention_chunk_size" : "sliding_window";
  const std::uint32_t size = keys_.count({key, "window_size"}, 2'000'000'000).value_or(0);
  if (all == 0 && size > 0 && keys_.is_true("use_sliding_window", true)) {
    windows = all = out_.model.layers();
  }
  if (windows == 0 || size == 0) return;
  if (const auto period = window_period(all, windows); period && all == out_.model.layers()) {
    constexpr std::uint32_t kMostTokens = 100'000'000;  // AttentionWindow.size
    out_.model.mutable_window()->set_size(std::min(size, kMostTokens));
    out_.model.mutable_window()->set_every(*period);
    return;
  }
  out_.assumed.push_back(
      fmt::format("windows of {} tokens in {} of {} layers priced as full "
                  "attention",
                  size, windows, all));
}

/// Returns the text part of a model with several parts, else the whole.
const YamlNode& text_part(const ConfigText& text, const YamlNode& tree, bool& is_part) {
  const ConfigKeys whole(text, tree, "the config.json of a model");
  for (const std::string_view name : kTextParts) {
    const YamlNode* const part = whole.find(name);
    if (part == nullptr || part->kind != YamlNode::Kind::map) continue;
    is_part = true;
    return *part;
  }
  return tree;
}

}  // namespace

Decoder read_hugging_face(std::string_view text, const std::string& file) {
  const ConfigText source{text, file};
  const YamlNode tree = parse_yaml_tree(text, file);
  bool is_part = false;
  const YamlNode& part = text_part(source, tree, is_part);
  const ConfigKeys keys(source, part, "the config.json of a model");
  Decoder out = FamilyReader(keys, family_of(keys)).read();
  if (is_part) out.assumed.emplace_back("the text model alone, without pictures and sound");
  finish_decoder(out, file);
  return out;
}

std::vector<std::string> model_families() {
  std::vector<std::string> names;
  for (const DecoderFamily& each : decoder_families()) names.emplace_back(each.name);
  return names;
}

}  // namespace orrery
