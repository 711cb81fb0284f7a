#include "traces/published/kernel_table.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "core/schema/names.hpp"
#include "traces/files/csv_table.hpp"
#include "traces/published/published_model.hpp"

namespace orrery {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
/// Rate of kernels in a run over that of kernels alone, where no run was measured: the geometric
/// mean of the fitted rates on A100 (1.03) and H100 (0.80), `gemm` x `compute` of stack nemo.
constexpr double kSustained = 0.91;

/// Operations of the table. Networks and bandwidths have a name behind a colon.
enum class Operation { matmul, group_matmul, sdp_fwd, sdp_bwd, bandwidth, network };
constexpr std::array<std::string_view, 6> names_of(Operation) {
  return {"matmul", "group_matmul", "sdp_fwd", "sdp_bwd", "bandwidth", "network"};
}

/// Operand orders of a product: not transposed (N) or transposed (T).
enum class ProductLayout { tn, nn, nt };
constexpr std::array<std::string_view, 3> names_of(ProductLayout) { return {"TN", "NN", "NT"}; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '{')) text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::optional<double> number_in(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc{} || result.ptr != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// Arguments of a call: keys and values joined by `=` or `:`, separated by commas; values in braces
/// stay whole.
std::map<std::string_view, std::string_view> arguments_of(std::string_view text) {
  std::map<std::string_view, std::string_view> found;
  text = trimmed(text);
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '{') ++depth;
    if (i < text.size() && text[i] == '}') --depth;
    const bool ends = i == text.size() || (depth < 0) || (depth == 0 && text[i] == ',');
    if (!ends) continue;
    const std::string_view pair = text.substr(begin, i - begin);
    const std::size_t mark = pair.find_first_of("=:");
    if (mark != std::string_view::npos) {
      found[trimmed(pair.substr(0, mark))] = trimmed(pair.substr(mark + 1));
    }
    begin = i + 1;
    if (depth < 0) break;
  }
  return found;
}

/// Reader of the rows of one GPU.
class Reader {
 public:
  Reader(const CsvTable& table, KernelTable& out) : table_(table), out_(out) {}

  void read();

 private:
  double number(std::string_view key, double least = 1) const;
  double optional_number(std::string_view key) const;
  std::uint32_t count(std::string_view key) const {
    return static_cast<std::uint32_t>(std::lround(number(key)));
  }
  double column(std::string_view name) const;
  double seconds(double flop) const {
    return flop / (column("peak_tflops") * 1e12 * column("efficiency"));
  }
  void read_matmul();
  void read_group();
  void read_attention(bool backward);
  void read_bandwidth(std::string_view name);
  void read_network(std::string_view name);
  void add_collective(std::string_view kind, std::uint32_t ranks, double start);

  const CsvTable& table_;
  KernelTable& out_;
  std::map<std::string_view, std::string_view> arguments_;
};

double Reader::column(std::string_view name) const {
  const std::optional<double> value = number_in(table_.text(name));
  if (value && *value > 0) return *value;
  table_.fail_at(name, fmt::format("expected a number above 0 in column '{}', found '{}'", name,
                                   table_.text(name)));
}

double Reader::number(std::string_view key, double least) const {
  const auto found = arguments_.find(key);
  if (found == arguments_.end()) {
    std::vector<std::string> keys;
    for (const auto& [known, value] : arguments_) keys.emplace_back(known);
    table_.fail_at("shape",
                   fmt::format("expected the key '{}' in the shape of a {}, found {}{}", key,
                               table_.text("op"), fmt::join(keys, ", "), did_you_mean(key, keys)));
  }
  const std::optional<double> value = number_in(found->second);
  if (value && *value >= least) return *value;
  table_.fail_at("shape", fmt::format("expected a number of at least {} for '{}', found '{}'",
                                      least, key, found->second));
}

double Reader::optional_number(std::string_view key) const {
  return arguments_.contains(key) ? number(key, 0) : 0;
}

void Reader::read_matmul() {
  const double m = number("m"), n = number("n"), k = number("k"), batch = number("b");
  const std::string_view layout = arguments_["layout"];
  MeasuredProduct& product = *out_.measured.add_products();
  const auto set = [&](const char* pass, double tokens, double output, double input) {
    product.set_pass(pass);
    product.set_tokens(static_cast<std::uint32_t>(tokens));
    product.set_output(static_cast<std::uint32_t>(output));
    product.set_input(static_cast<std::uint32_t>(input));
  };
  const std::optional<ProductLayout> order = find_named<ProductLayout>(layout);
  if (!order) {
    table_.fail_at("shape", fmt::format("expected layout TN (forward), NN (gradient of the data) "
                                        "or NT (gradient of the weights), found '{}'",
                                        layout));
  }
  if (*order == ProductLayout::tn) set("forward", m, n, k);
  if (*order == ProductLayout::nn) set("data-gradient", m, k, n);
  if (*order == ProductLayout::nt) set("weight-gradient", k, m, n);
  if (batch > 1) product.set_groups(static_cast<std::uint32_t>(batch));
  product.set_time(seconds(2 * batch * m * n * k));
}

void Reader::read_group() {
  constexpr std::array<std::string_view, 3> kStages = {"fwd", "bwd_grad_act", "bwd_grad_w"};
  constexpr std::array kPasses = {"forward", "data-gradient", "weight-gradient"};
  const std::string_view stage = arguments_["stage"];
  const auto found = std::find(kStages.begin(), kStages.end(), stage);
  if (found == kStages.end()) {
    table_.fail_at("shape",
                   fmt::format("expected stage {}, found '{}'", fmt::join(kStages, ", "), stage));
  }
  MeasuredProduct& product = *out_.measured.add_products();
  product.set_pass(kPasses.at(static_cast<std::size_t>(found - kStages.begin())));
  product.set_tokens(count("M"));
  product.set_output(count("N"));
  product.set_input(count("K"));
  product.set_groups(count("ng"));
  product.set_time(seconds(2 * number("ng") * number("M") * number("N") * number("K")));
}

void Reader::read_attention(bool backward) {
  const double batch = number("batch"), sequence = number("seq_len"), heads = number("head_num"),
               key_values = number("kv_head_num"), head = number("qk_head_dim"),
               value = number("v_head_dim");
  MeasuredAttention& attention = *out_.measured.add_attention();
  attention.set_pass(backward ? "backward" : "forward");
  attention.set_sequence(static_cast<std::uint32_t>(sequence));
  attention.set_heads(static_cast<std::uint32_t>(batch * heads));
  attention.set_kv_heads(static_cast<std::uint32_t>(batch * key_values));
  attention.set_head(static_cast<std::uint32_t>(head));
  attention.set_value(static_cast<std::uint32_t>(value));
  const double base = batch * sequence * sequence * std::max(heads, key_values) * (head + value);
  attention.set_time(seconds((backward ? 5 : 2) * base));
}

void Reader::read_bandwidth(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, const char*>, 5> kKinds = {{
      {"default", "other"},
      {"permute_fwd", "permute"},
      {"permute_bwd", "permute"},
      {"ce", "loss"},
      {"ce_fusion", "fused-loss"},
  }};
  const auto found = std::find_if(kKinds.begin(), kKinds.end(),
                                  [&](const auto& each) { return each.first == name; });
  if (found == kKinds.end()) {
    std::vector<std::string> names;
    for (const auto& [known, kind] : kKinds) names.emplace_back(known);
    table_.fail_at("op", fmt::format("expected bandwidth:{}, found '{}'{}", fmt::join(names, ", "),
                                     name, did_you_mean(name, names)));
  }
  MeasuredStream& stream = *out_.measured.add_streams();
  stream.set_kind(found->second);
  stream.set_bandwidth(number("gbps") * kGiB * column("efficiency"));
  stream.set_start(optional_number("latency_us") * 1e-6);
}

void Reader::add_collective(std::string_view kind, std::uint32_t ranks, double start) {
  MeasuredCollective made;
  made.set_kind(std::string(kind));
  made.set_ranks(ranks);
  made.set_bandwidth(number("gbps") * kGiB * column("efficiency"));
  made.set_round(optional_number("latency_us") * 1e-6);
  made.set_start(start * 1e-6);
  for (MeasuredCollective& known : *out_.measured.mutable_collectives()) {
    if (known.kind() != kind || known.ranks() != ranks) continue;
    known = made;  // a later row of the same call replaces an earlier one
    return;
  }
  *out_.measured.add_collectives() = made;
}

/// Rows of PCIe are those of one number of GPUs: "intra_node_pcie_4x" is among 4.
void Reader::read_network(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kKinds = {{
      {"all_reduce", "all-reduce"},
      {"all_gather", "all-gather"},
      {"reduce_scatter", "reduce-scatter"},
      {"all2all", "all-to-all"},
      {"p2p", "send"},
  }};
  const std::size_t colon = name.find(':');
  const std::string_view net = name.substr(0, colon);
  const std::string_view call =
      colon == std::string_view::npos ? std::string_view{} : name.substr(colon + 1);
  const auto found = std::find_if(kKinds.begin(), kKinds.end(),
                                  [&](const auto& each) { return each.first == call; });
  if (found == kKinds.end()) {
    std::vector<std::string> names;
    for (const auto& [known, kind] : kKinds) names.emplace_back(known);
    table_.fail_at("op", fmt::format("expected network:NET:CALL with the call {}, found '{}'{}",
                                     fmt::join(names, ", "), call, did_you_mean(call, names)));
  }
  const bool inside = net.find("intra_node") != std::string_view::npos;
  if (!inside || table_.text("efficiency").empty()) {
    ++out_.ignored;
    --out_.used;
    return;
  }
  const std::size_t of = net.rfind('_');
  const std::optional<double> ranks =
      net.ends_with('x') ? number_in(net.substr(of + 1, net.size() - of - 2)) : std::nullopt;
  const double fixed = optional_number("fixed_latency_us");
  add_collective(found->second, static_cast<std::uint32_t>(ranks.value_or(0)), fixed);
  for (const auto& [key, value] : arguments_of(arguments_["fixed_latency_us_by_comm_num"])) {
    const std::optional<double> among = number_in(key), start = number_in(value);
    if (among && start) {
      add_collective(found->second, static_cast<std::uint32_t>(*among), *start);
    }
  }
}

void Reader::read() {
  const std::string_view op = table_.text("op");
  const std::size_t colon = op.find(':');
  const std::string_view kind = op.substr(0, colon);
  const std::string_view rest =
      colon == std::string_view::npos ? std::string_view{} : op.substr(colon + 1);
  const std::optional<Operation> operation = find_named<Operation>(kind);
  if (!operation) {
    const std::vector<std::string> known = all_names<Operation>();
    table_.fail_at("op", fmt::format("expected one of {}, found '{}'{}", fmt::join(known, ", "),
                                     kind, did_you_mean(kind, known)));
  }
  arguments_ = arguments_of(table_.text("shape"));
  ++out_.used;
  switch (*operation) {
    case Operation::matmul: return read_matmul();
    case Operation::group_matmul: return read_group();
    case Operation::sdp_fwd: return read_attention(false);
    case Operation::sdp_bwd: return read_attention(true);
    case Operation::bandwidth: return read_bandwidth(rest);
    case Operation::network: return read_network(rest);
  }
}

CsvTable table_of(const std::string& path, std::string_view text) {
  return {path, text, "kernel measurements", {"gpu", "op", "peak_tflops", "efficiency", "shape"}};
}

/// Returns the GPU names of the table, each once, that are `gpu` in the catalogue's words; all of
/// them if `gpu` is empty.
std::set<std::string> gpus_of(const std::string& path, std::string_view text,
                              const std::string& gpu) {
  std::set<std::string> all, chosen;
  CsvTable table = table_of(path, text);
  while (table.next()) {
    const std::string name(table.text("gpu"));
    if (!all.insert(name).second) continue;
    const std::optional<std::string> known = catalogue_gpu(name);
    if (!known) {
      table.fail_at("gpu", fmt::format("expected a GPU of the catalogue, found '{}': `orrery list "
                                       "gpus` prints their names",
                                       name));
    }
    if (gpu.empty() || *known == gpu || name == gpu) chosen.insert(name);
  }
  const std::vector<std::string> names(all.begin(), all.end());
  if (chosen.size() == 1) return chosen;
  if (chosen.empty()) {
    throw Error(
        ErrorKind::bad_input,
        fmt::format("{}: expected measurements of {}, found {}", path, gpu.empty() ? "a GPU" : gpu,
                    names.empty() ? "no row" : fmt::format("{}", fmt::join(names, ", "))));
  }
  throw Error(ErrorKind::bad_input,
              fmt::format("{}: expected the measurements of one GPU, found {}: name one with --gpu",
                          path, fmt::join(names, ", ")));
}

}  // namespace

KernelTable read_kernel_table(const std::string& path, std::string_view text,
                              const std::string& gpu) {
  const std::string name = *gpus_of(path, text, gpu).begin();
  KernelTable out;
  out.measured.set_gpu(*catalogue_gpu(name));
  CsvTable table = table_of(path, text);
  while (table.next()) {
    if (table.text("gpu") == name) Reader(table, out).read();
  }
  out.measured.set_sustained(kSustained);
  out.measured.add_source(fmt::format("{} rows of {}: {}", out.used, path, name));
  return out;
}

}  // namespace orrery
