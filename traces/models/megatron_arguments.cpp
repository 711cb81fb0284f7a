#include "traces/models/megatron_arguments.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/yaml_tree.hpp"
#include "traces/workload/layer_weights.hpp"

namespace orrery {
namespace {

constexpr int kMostExpansions = 8;  ///< expansions of variables that name one another

/// Word of the text with its place.
struct Word {
  std::string text;
  int line = 1, column = 1;
};

bool is_separator(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\\' || c == '"' || c == '\'' ||
         c == '(' || c == ')' || c == ',' || c == '[' || c == ']';
}

/// Splits a shell text into words. Quotes, brackets and line continuations separate words: none of
/// the values that the reader needs has one inside. Comments are left out.
std::vector<Word> words_of(std::string_view text) {
  std::vector<Word> words;
  int line = 1, column = 0;
  bool is_open = false, is_comment = false;
  for (const char c : text) {
    ++column;
    if (c == '\n') {
      ++line;
      column = 0;
      is_open = is_comment = false;
    } else if (is_comment || is_separator(c)) {
      is_open = false;
    } else if (c == '#' && !is_open) {
      is_comment = true;
    } else {
      if (!is_open) words.push_back({.text = "", .line = line, .column = column});
      is_open = true;
      words.back().text += c;
    }
  }
  return words;
}

bool is_name(std::string_view text) {
  const auto plain = [](char c) {
    return c == '_' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), plain);
}

/// Arguments by name, without their dashes. The last one of a name counts, as in argparse.
class Arguments {
 public:
  Arguments(std::string_view text, const std::string& file) : text_(text), file_(file) {
    const std::vector<Word> words = words_of(text);
    std::map<std::string, std::string> variables;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i].text;
      const std::size_t equals = word.find('=');
      if (!word.starts_with("--")) {
        if (equals != std::string::npos && is_name(word.substr(0, equals))) {
          variables[word.substr(0, equals)] = word.substr(equals + 1);
        }
        continue;
      }
      Word value{.text = "", .line = words[i].line, .column = words[i].column};
      if (equals != std::string::npos) {
        value.text = word.substr(equals + 1);
      } else if (i + 1 < words.size() && !words[i + 1].text.starts_with("--")) {
        value = words[i + 1];
      }
      values_[word.substr(2, equals == std::string::npos ? equals : equals - 2)] = value;
    }
    for (auto& [name, value] : values_) replace_variable(value.text, variables);
  }

  bool has(const std::string& name) const { return values_.contains(name); }
  std::string word(const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? std::string() : found->second.text;
  }
  /// Returns a whole number from 1 to `most`, `usual` without the argument.
  std::uint32_t count(const std::string& name, std::uint32_t most, std::uint32_t usual) const {
    const auto found = values_.find(name);
    if (found == values_.end()) return usual;
    const std::string& text = found->second.text;
    std::uint32_t value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc() || end != text.data() + text.size() || value < 1 || value > most) {
      throw_error(name, fmt::format("expected a whole number from 1 to {} for --{}, found '{}'",
                                    most, name, shown(text)));
    }
    return value;
  }
  std::uint32_t required(const std::string& name, std::uint32_t most) const {
    if (!has(name)) {
      throw_error(name, fmt::format("expected the argument --{} of Megatron-LM, found none", name));
    }
    return count(name, most, 1);
  }
  [[noreturn]] void throw_error(const std::string& name, const std::string& message) const {
    const auto found = values_.find(name);
    const Word at = found == values_.end() ? Word{} : found->second;
    throw Error(place_in(text_, file_, at.line, at.column), message);
  }

 private:
  static void replace_variable(std::string& value,
                               const std::map<std::string, std::string>& variables) {
    for (int depth = 0; depth < kMostExpansions && value.starts_with("$"); ++depth) {
      std::string name = value.substr(1);
      if (name.starts_with("{") && name.ends_with("}")) name = name.substr(1, name.size() - 2);
      const std::size_t usual = name.find(":-");
      const auto found = variables.find(name.substr(0, usual));
      if (found != variables.end() && found->second != value) {
        value = found->second;
      } else if (usual != std::string::npos) {
        value = name.substr(usual + 2);  // also NAME=${NAME:-usual}
      } else {
        return;
      }
    }
  }

  std::string_view text_;
  const std::string& file_;
  std::map<std::string, Word> values_;
};

/// `--vocab-size` is padded to a multiple of `--make-vocab-size-divisible-by` and the tensor ranks.
std::uint32_t vocabulary_of(const Arguments& in) {
  constexpr std::uint32_t kMost = 100'000'000;
  if (in.has("padded-vocab-size")) return in.count("padded-vocab-size", kMost, 1);
  if (!in.has("vocab-size")) {
    in.throw_error("vocab-size",
                   "expected the argument --vocab-size or --padded-vocab-size, found none: "
                   "the size of the tokenizer is not among the arguments, so add it");
  }
  const double size = in.count("vocab-size", kMost, 1);
  const double unit = double{1} * in.count("make-vocab-size-divisible-by", 1'000'000, 128) *
                      in.count("tensor-model-parallel-size", 131072, 1);
  const double padded = std::ceil(size / unit) * unit;
  if (padded > kMost) in.throw_error("vocab-size", "expected a padded vocabulary up to 1e8");
  return static_cast<std::uint32_t>(padded);
}

void read_attention(const Arguments& in, Model& model) {
  model.set_kv_heads(model.heads());
  if (in.has("multi-latent-attention")) {
    LatentAttention& latent = *model.mutable_latent_attention();
    if (in.has("q-lora-rank")) latent.set_query_rank(in.count("q-lora-rank", 1'000'000, 1));
    latent.set_key_value_rank(in.count("kv-lora-rank", 1'000'000, 32));
    latent.set_plain(in.count("qk-head-dim", 10'000, 128));
    latent.set_rotary(in.count("qk-pos-emb-head-dim", 10'000, 64));
    latent.set_value(in.count("v-head-dim", 10'000, 128));
    return;
  }
  if (in.has("group-query-attention")) {
    model.set_kv_heads(in.count("num-query-groups", 10'000, 1));
    if (model.heads() % model.kv_heads() != 0) {
      in.throw_error("num-query-groups",
                     fmt::format("expected query groups that divide the {} heads, "
                                 "found {}",
                                 model.heads(), model.kv_heads()));
    }
  }
  if (in.has("kv-channels")) {
    model.set_head_size(in.count("kv-channels", 10'000, 1));
  } else if (model.hidden() % model.heads() != 0) {
    in.throw_error("num-attention-heads",
                   "expected heads that divide --hidden-size, or --kv-channels");
  }
}

/// Returns the number of layers with experts. --moe-layer-freq N means every N-th layer from the
/// first one on; a list of Python has no reader here.
std::uint32_t sparse_layers(const Arguments& in, std::uint32_t layers) {
  const std::uint32_t each = in.count("moe-layer-freq", 10'000, 1);
  return (layers - 1) / each + 1;
}

void read_experts(const Arguments& in, Decoder& out) {
  if (!in.has("num-experts")) return;
  Model& model = out.model;
  const std::uint32_t sparse = sparse_layers(in, model.layers());
  Experts& experts = *model.mutable_experts();
  experts.set_count(in.count("num-experts", 100'000, 2));
  experts.set_top_k(in.count("moe-router-topk", 1000, 2));
  if (experts.count() < 2 || experts.top_k() > experts.count()) {
    in.throw_error("num-experts", "expected at least 2 experts, and at least --moe-router-topk");
  }
  experts.set_feed_forward(in.count("moe-ffn-hidden-size", 10'000'000, model.feed_forward()));
  spread_experts(experts, model.layers(), sparse);
  const std::string shared = "moe-shared-expert-intermediate-size";
  if (!in.has(shared)) return;
  const std::uint32_t inner = in.count(shared, 10'000'000, 1), one = experts.feed_forward();
  if (inner > 1000.0 * one)
    in.throw_error(shared, "expected at most 1000 times the size of an expert");
  experts.set_shared((inner - 1) / one + 1);
  out.small.shared_inner = inner;
}

void read_vectors(const Arguments& in, Decoder& out) {
  SmallParameters& small = out.small;
  small.norm_values = in.word("normalization") == "RMSNorm" ? 1 : 2;
  if (in.has("qk-layernorm")) {
    small.head_norm = HeadNorm::shared;
    small.head_norm_values = small.norm_values;
  }
  const bool biased = !in.has("disable-bias-linear");
  small.query_bias = biased || in.has("add-qkv-bias");
  small.output_bias = small.mlp_bias = small.expert_bias = biased;
  const std::string kind = in.word("position-embedding-type");
  if ((kind.empty() || kind == "learned_absolute") && !in.has("use-rotary-position-embeddings")) {
    small.positions = in.count("max-position-embeddings", 100'000'000, 1);
  }
}

}  // namespace

bool has_megatron_arguments(std::string_view text) {
  return text.find("--num-layers") != std::string_view::npos &&
         text.find("--hidden-size") != std::string_view::npos;
}

Decoder read_megatron_arguments(std::string_view text, const std::string& file, NamedBatch& batch) {
  const Arguments in(text, file);
  Decoder out;
  out.family = "megatron";
  Model& model = out.model;
  model.set_layers(in.required("num-layers", 10'000));
  model.set_hidden(in.required("hidden-size", 1'000'000));
  model.set_heads(in.required("num-attention-heads", 10'000));
  model.set_gated(in.has("swiglu"));
  const double usual = model.gated() ? 8.0 * model.hidden() / 3 / 64 : 4.0 * model.hidden();
  const auto whole = static_cast<std::uint32_t>(std::max(1.0, usual));
  model.set_feed_forward(
      in.count("ffn-hidden-size", 10'000'000, model.gated() ? whole * 64 : whole));
  model.set_vocabulary(vocabulary_of(in));
  model.set_tied_embeddings(!in.has("untie-embeddings-and-output-weights"));
  read_attention(in, model);
  read_experts(in, out);
  read_vectors(in, out);
  batch.sequence_length = in.count("seq-length", 100'000'000, 0);
  batch.global_batch = in.count("global-batch-size", 100'000'000, 0);
  batch.micro_batch = in.count("micro-batch-size", 1'000'000, 0);
  finish_decoder(out, file);
  return out;
}

}  // namespace orrery
