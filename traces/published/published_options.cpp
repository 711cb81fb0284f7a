#include "traces/published/published_options.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "traces/workload/framework.hpp"

namespace orrery {
namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// PyTorch's selective checkpointing by operator keeps every second matrix product and computes the
/// rest again (torchtitan): less than half of the forward pass.
constexpr double kPerOperator = 0.4;
/// Part of a layer's forward pass in one module of Megatron-Core's list.
struct Module {
  std::string_view name;
  double share;
};
constexpr std::array kModules = {Module{"mlp", 0.6}, Module{"moe", 0.6}, Module{"moe_act", 0.02},
                                 Module{"layernorm", 0.02}, Module{"mla_up_proj", 0.1}};
/// Hidden fraction of the tensor-parallel collectives: with all of Transformer Engine's user
/// buffers, and with its gathering alone.
constexpr double kUserBuffers = 0.7, kGatherOnly = 0.35;

double share_of(double layers, double all) {
  return all > 0 ? std::clamp(layers / all, 0.0, 1.0) : 1;
}

/// Returns the share of a layer in a comma-separated list of modules; 0 if no module is known.
double modules_share(std::string_view text) {
  double sum = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    std::string_view name = text.substr(0, end);
    while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
    while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
    for (const Module& module : kModules) sum += module.name == name ? module.share : 0;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::min(1.0, sum);
}

/// Returns the value of a flag such as "TP_COMM_OVERLAP=False"; nothing if the text lacks the flag.
std::optional<bool> flag(std::string_view text, std::string_view name) {
  const std::size_t found = text.find(name);
  if (found == std::string_view::npos) return std::nullopt;
  std::string_view value = text.substr(found + name.size());
  if (value.empty() || value.front() != '=') return true;
  value.remove_prefix(1);
  return !(value.starts_with("false") || value.starts_with("0") || value.starts_with("off"));
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Returns N / M of the first "N of M" in a text: 9 / 61 for "full, 9 of 61 layers by id"; nothing
/// if the text has no such words.
std::optional<double> stated_share(std::string_view text) {
  constexpr std::string_view kOf = " of ";
  for (std::size_t of = text.find(kOf); of != std::string_view::npos; of = text.find(kOf, of + 1)) {
    std::size_t begin = of;
    while (begin > 0 && is_digit(text[begin - 1])) --begin;
    const auto some = number_after(text.substr(begin), "");
    const auto all = number_after(text.substr(of), kOf);
    if (some && all) return share_of(*some, *all);
  }
  return std::nullopt;
}

bool mentions_offload(std::string_view text) {
  return has(text, "offload") && !has(text, "no offload") && !has(text, "without offload");
}

RecomputeOption full_option(std::string_view text, std::uint32_t layers) {
  if (const std::optional<double> share = stated_share(text)) return {"full", *share, ""};
  for (const char* word : {"block ", "layers ", "full "}) {
    const std::optional<std::uint32_t> count = number_after(text, word);
    if (count) return {"full", share_of(*count, layers), ""};
  }
  return {"full", 1, ""};
}

/// Returns the recomputation in a text in lower case; the caller sets `offloads`.
RecomputeOption recompute_words(std::string_view text, std::uint32_t layers) {
  if (text.starts_with("none") || text == "no" || text == "off") return {"none", 1, ""};
  if (text.starts_with("selective per op")) return {"full", kPerOperator, ""};
  if (text.starts_with("selective")) {
    const std::optional<std::uint32_t> every = number_after(text, "selective ");
    if (every && *every > 1) return {"full", 1.0 / *every, ""};
    return {"selective", 1, ""};
  }
  if (text.starts_with("full")) return full_option(text, layers);
  const double modules = modules_share(text);
  if (modules > 0) return {"full", modules, ""};
  if (has(text, "core_attn") || text.starts_with("minimal")) return {"selective", 1, ""};
  // A custom policy of MaxText computes all tensors again that the policy does not name (remat in
  // configs/base.yml), and prime-rl's ac_offloading offloads checkpoints: whole layers are computed
  // again from the offloaded values.
  if (mentions_offload(text)) return {"full", 1, ""};
  // MaxText's policies keep or offload the results of matrix products.
  if (has(text, "custom")) {
    return {.what = "selective",
            .assumed = "recompute selective, offloading what does not fit",
            .offloads_to_fit = true};
  }
  return {};
}

}  // namespace

std::optional<std::uint32_t> number_after(std::string_view text, std::string_view word) {
  const std::size_t found = text.find(word);
  if (found == std::string_view::npos) return std::nullopt;
  std::uint32_t value = 0;
  std::size_t digits = 0;
  for (const char c : text.substr(found + word.size())) {
    if (!is_digit(c) || ++digits > 6) break;
    value = 10 * value + static_cast<std::uint32_t>(c - '0');
  }
  if (value == 0) return std::nullopt;
  return value;
}

RecomputeOption recompute_option(std::string_view written, std::uint32_t layers) {
  const std::string text = lower_case(written);
  RecomputeOption option = recompute_words(text, layers);
  option.offloads = mentions_offload(text);
  return option;
}

std::optional<std::string> attention_option(std::string_view written) {
  const std::string text = lower_case(written);
  if (text.empty()) return std::nullopt;
  for (const char* word : {"unfused", "no flash", "math", "eager"}) {
    if (has(text, word)) return "unfused";
  }
  if (has(text, "cudnn")) return "cudnn";
  // One spelling: flash_attention_3, flash-attention-3 and flash attention 3 are the same kernels.
  std::string spaced = text;
  std::replace_if(spaced.begin(), spaced.end(), [](char c) { return c == '_' || c == '-'; }, ' ');
  const auto is_generation = [&spaced](char digit) {
    for (const char* word : {"flash ", "flash", "flash attn ", "flash attention ", "fa"}) {
      if (has(spaced, std::string(word) + digit)) return true;
    }
    return false;
  };
  if (is_generation('3')) return "flash-3";
  for (const char* word : {"(v1", "efficient attention", "xformers"}) {
    if (has(spaced, word)) return "flash-1";
  }
  if (is_generation('1')) return "flash-1";
  // PyTorch's scaled_dot_product_attention and its FLASH_ATTENTION ship kernels of the second
  // generation.
  if (is_generation('2') || has(text, "flash_attention") || has(text, "sdpa")) return "flash-2";
  return "flash";
}

OverlapOption overlap_option(std::string_view written) {
  const std::string text = lower_case(written);
  OverlapOption option;
  if (text.empty() || text == "all") return option;
  if (text == "none" || text == "no" || text.starts_with("no overlap") ||
      text.starts_with("none (")) {
    option.gradients = option.parameters = option.pipeline = false;
    option.tensor = option.expert = 0.0;
    return option;
  }
  option.understood = false;
  const auto take = [&](std::optional<bool>& into, std::initializer_list<const char*> names) {
    for (const char* name : names) {
      const std::optional<bool> value = flag(text, name);
      if (!value) continue;
      into = *value;
      option.understood = true;
    }
  };
  std::optional<bool> tensor, gather, expert, all_of_them;
  take(option.gradients, {"overlap_grad_reduce", "grad/param", "grad reduce", "ddp bucket"});
  take(option.parameters, {"overlap_param_gather", "grad/param", "param gather"});
  take(option.pipeline, {"overlap_p2p", "p2p overlap", "p2p,"});
  take(option.graphs, {"mcore_cuda_graph", "cuda_graph"});
  take(gather, {"mc_tp_overlap_ag"});
  take(tensor, {"tp_comm_overlap", "tp userbuffer", "tp comm"});
  take(expert, {"overlap_moe", "dualpipe", "ep overlap"});
  if (gather) option.tensor = *gather ? kGatherOnly : 0;
  if (tensor) option.tensor = *tensor ? kUserBuffers : option.tensor.value_or(0);
  if (expert && !*expert) option.expert = 0;
  return option;
}

std::optional<CapacityOption> capacity_option(std::string_view written) {
  constexpr double kLeast = 0.1, kMost = 1000;  // limits of Experts.capacity
  std::string text = lower_case(written);
  std::replace(text.begin(), text.end(), '_', ' ');
  constexpr std::string_view kFactor = "capacity factor";
  const std::size_t found = text.find(kFactor);
  if (found == std::string::npos) return std::nullopt;
  const std::size_t begin = text.find_first_not_of(" =:", found + kFactor.size());
  if (begin == std::string::npos) return std::nullopt;
  CapacityOption option;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + begin, end, option.factor);
  if (read.ec != std::errc() || option.factor < kLeast || option.factor > kMost) {
    return std::nullopt;
  }
  // MaxText's dense products have ceil(tokens x top_k / experts) x factor rows for each expert
  // (layers/moe.py, generate_masks), which masks dispatch (BSM,BSEC->EBCM) and combine.
  option.masks = has(text, "dense matmul");
  option.pads = has(text, "pad") || option.masks;
  return option;
}

std::uint32_t adapter_rank(std::string_view model) {
  constexpr std::uint32_t kUsual = 16;  // rank in MLPerf's fine-tuning benchmark
  const std::string text = lower_case(model);
  const std::size_t found = text.find("lora");
  if (found == std::string::npos) return 0;
  return number_after(std::string_view(text).substr(found), " r").value_or(kUsual);
}

std::optional<double> logit_bytes(std::string_view loss) {
  struct Known {
    std::string_view name;
    double bytes;
  };
  // fused: the gradient overwrites the 16-bit logits (Megatron-Core's fused cross entropy).
  // chunked: the logits of a few tokens exist at a time. plain: logits in 16 and 32 bits, their
  // softmax and its gradient in 32 bits, and the gradient in 16 bits; prime-rl's trainers, which
  // are alike but for a chunked loss, differ by 16.2 bytes at 16,384 tokens.
  constexpr std::array kKnown = {Known{"fused", 2}, Known{"chunked", 0}, Known{"plain", 16}};
  const std::string text = lower_case(loss);
  for (const Known& known : kKnown) {
    if (text == known.name) return known.bytes;
  }
  return std::nullopt;
}

std::optional<double> optimizer_bytes(std::string_view name) {
  struct Known {
    std::string_view name;
    double bytes;
  };
  constexpr std::array kKnown = {
      Known{"adam 8", 6}, Known{"8-bit", 6}, Known{"adam bf16", 4}, Known{"adafactor", 4.1},
      Known{"adam", 12},  Known{"lion", 8},  Known{"muon", 8},      Known{"momentum", 8},
      Known{"sgd", 4},    Known{"none", 0}};
  const std::string text = lower_case(name);
  for (const Known& known : kKnown) {
    if (has(text, known.name)) return known.bytes;
  }
  return std::nullopt;
}

}  // namespace orrery
