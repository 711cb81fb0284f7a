#include "traces/jobs/cluster_log.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/yaml_tree.hpp"
#include "traces/files/csv.hpp"
#include "traces/jobs/json_items.hpp"

namespace orrery {
namespace {

constexpr std::size_t kMostNodes = 131'072;
constexpr std::uint32_t kMostGpus = 128;  // limit of one node

template <class Number>
std::optional<Number> whole_number(std::string_view text) {
  Number value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) return {};
  return value;
}

/// Splits a list at commas outside of brackets.
std::vector<std::string_view> parts_of(std::string_view list) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0, depth = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] == '[') ++depth;
    if (i < list.size() && list[i] == ']' && depth > 0) --depth;
    if (i < list.size() && (list[i] != ',' || depth > 0)) continue;
    if (i > begin) parts.push_back(list.substr(begin, i - begin));
    begin = i + 1;
  }
  return parts;
}

/// Appends the names of a range ("001-016" or "7") between `before` and `behind`. Returns false if
/// the range is not valid.
bool expand_range(std::string_view range, std::string_view before, std::string_view behind,
                  std::vector<std::string>& out) {
  const std::size_t dash = range.find('-');
  const std::string_view first = range.substr(0, dash);
  const auto begin = whole_number<std::uint32_t>(first);
  const auto end = dash == std::string_view::npos
                       ? begin
                       : whole_number<std::uint32_t>(range.substr(dash + 1));
  if (!begin || !end || *end < *begin || *end - *begin >= kMostNodes - out.size()) return false;
  for (std::uint32_t i = *begin; i <= *end; ++i) {
    out.push_back(fmt::format("{}{:0{}}{}", before, i, first.size(), behind));
  }
  return true;
}

bool expand_part(std::string_view part, std::vector<std::string>& out) {
  const std::size_t open = part.find('['), close = part.find(']');
  if (open == std::string_view::npos && close == std::string_view::npos) {
    out.emplace_back(part);
    return out.size() <= kMostNodes;
  }
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return false;
  }
  const std::string_view before = part.substr(0, open), behind = part.substr(close + 1);
  if (behind.find_first_of("[]") != std::string_view::npos) return false;
  const auto ranges = parts_of(part.substr(open + 1, close - open - 1));
  return !ranges.empty() &&
         std::all_of(ranges.begin(), ranges.end(), [&](std::string_view range) {
           return expand_range(range, before, behind, out);
         });
}

// ---- Slurm ----------------------------------------------------------------------------------

/// Returns the settings of one line. The keys are in lower case, because Slurm ignores their case.
std::map<std::string, std::string_view> settings_of(std::string_view line) {
  std::map<std::string, std::string_view> settings;
  while (true) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos || line[begin] == '#') return settings;
    line.remove_prefix(begin);
    const std::string_view word = line.substr(0, line.find_first_of(" \t\r"));
    line.remove_prefix(word.size());
    const std::size_t mark = word.find('=');
    if (mark == std::string_view::npos) continue;
    std::string key(word.substr(0, mark));
    std::transform(key.begin(), key.end(), key.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    settings[key] = word.substr(mark + 1);
  }
}

/// Reader of the nodes in a slurm.conf.
class SlurmConf {
 public:
  SlurmConf(const std::string& path, std::string_view text) : path_(path), text_(text) {}

  std::vector<NodeRecord> read() {
    std::string_view rest = text_;
    for (line_ = 1; !rest.empty(); ++line_) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      read_line(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return std::move(nodes_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(place_in(text_, path_, line_, 1), message);
  }
  std::uint64_t number(const std::map<std::string, std::string_view>& settings, const char* key,
                       std::uint64_t otherwise) const {
    const auto found = settings.find(key);
    if (found == settings.end()) return otherwise;
    const auto value = whole_number<std::uint64_t>(found->second);
    if (value && *value <= 1'000'000'000) return *value;
    fail(fmt::format("{} is '{}', expected a whole number", key,
                     shown(std::string(found->second))));
  }
  /// Adds the GPUs of a Gres list, for example "gpu:a100:8(S:0-1)", to a node.
  void take_gres(std::string_view gres, NodeRecord& node) const {
    for (std::string_view each : parts_of(gres)) {
      each = each.substr(0, each.find('('));
      if (each != "gpu" && !each.starts_with("gpu:")) continue;
      const std::size_t last = each.rfind(':');
      const auto count =
          last == std::string_view::npos ? 1u : whole_number<std::uint32_t>(each.substr(last + 1));
      const std::uint32_t gpus = count.value_or(1);  // "gpu:a100" means one GPU
      if (gpus > kMostGpus - node.gpus) fail(fmt::format("a node of over {} GPUs", kMostGpus));
      node.gpus += gpus;
      const std::size_t first = each.find(':');
      const std::string_view kind = first == std::string_view::npos
                                        ? std::string_view{}
                                        : each.substr(first + 1, count && last > first
                                                                     ? last - first - 1
                                                                     : std::string_view::npos);
      if (!whole_number<std::uint32_t>(kind)) node.model = std::string(kind);
    }
  }
  void read_line(std::string_view line) {
    const auto settings = settings_of(line);
    const auto names = settings.find("nodename");
    if (names == settings.end() || names->second == "DEFAULT") return;
    NodeRecord node;
    const std::uint64_t cpus = number(settings, "sockets", 1) *
                               number(settings, "corespersocket", 1) *
                               number(settings, "threadspercore", 1);
    node.cpu_milli = static_cast<std::int64_t>(1000 * number(settings, "cpus", cpus));
    node.memory_mib = static_cast<std::int64_t>(number(settings, "realmemory", 1));
    if (const auto gres = settings.find("gres"); gres != settings.end()) {
      take_gres(gres->second, node);
    }
    const std::vector<std::string> hosts = expand_host_list(names->second);
    if (hosts.empty()) {
      fail(fmt::format("expected a list of hosts, got '{}'", shown(std::string(names->second))));
    }
    if (hosts.size() > kMostNodes - nodes_.size()) fail("expected at most 131072 nodes, got more");
    for (const std::string& host : hosts) {
      node.name = host;
      nodes_.push_back(node);
    }
  }

  const std::string& path_;
  const std::string_view text_;
  int line_ = 0;
  std::vector<NodeRecord> nodes_;
};

// ---- Kubernetes -----------------------------------------------------------------------------

std::uint32_t count_of(const nlohmann::json& value) {
  if (value.is_number_unsigned()) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(value.get<std::uint64_t>(), ~0u));
  }
  if (!value.is_string()) return 0;
  return whole_number<std::uint32_t>(value.get_ref<const std::string&>()).value_or(0);
}

std::vector<NodeRecord> kubernetes_nodes(const std::string& path, std::string_view text) {
  std::vector<NodeRecord> nodes;
  const auto read = [&](const nlohmann::json& object, int line) {
    if (json_text(object, "kind") != "Node") return;
    const nlohmann::json& metadata = json_at(object, {"metadata"});
    NodeRecord node{.name = json_text(metadata, "name")};
    node.model = json_text(json_at(metadata, {"labels"}), "nvidia.com/gpu.product");
    const nlohmann::json& capacity = json_at(object, {"status", "capacity"});
    node.cpu_milli = std::int64_t{1000} * count_of(json_at(capacity, {"cpu"}));
    for (const auto& [name, amount] : capacity.items()) {
      if (!name.ends_with("/gpu")) continue;
      const std::uint32_t gpus = count_of(amount);
      if (gpus > kMostGpus - node.gpus) {
        throw Error(place_in(text, path, line, 1),
                    fmt::format("a node of over {} GPUs", kMostGpus));
      }
      node.gpus += gpus;
    }
    nodes.push_back(std::move(node));
  };
  read_json_items(path, text, 2, "the nodes of a cluster (kubectl get nodes -o json)", read);
  return nodes;
}

}  // namespace

std::vector<std::string> expand_host_list(std::string_view list) {
  std::vector<std::string> out;
  for (const std::string_view part : parts_of(list)) {
    if (!expand_part(part, out)) return {};
  }
  return out;
}

std::vector<NodeRecord> parse_cluster_log(const std::string& path, std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text.substr(first).starts_with("sn,")) {
    return parse_nodes(path, text);
  }
  const bool json = first != std::string_view::npos && text[first] == '{';
  std::vector<NodeRecord> nodes =
      json ? kubernetes_nodes(path, text) : SlurmConf(path, text).read();
  if (std::any_of(nodes.begin(), nodes.end(), [](const auto& node) { return node.gpus > 0; })) {
    return nodes;
  }
  throw Error(SourcePlace{.file = path, .line_text = ""},
              "expected a slurm.conf (NodeName=... Gres=gpu:8), the output of kubectl get nodes "
              "-o json or a list of nodes (sn,cpu_milli,memory_mib,gpu,model), got a file that "
              "names no node with GPUs");
}

std::vector<NodeRecord> load_cluster_log(const std::string& path) {
  return parse_cluster_log(path, read_packed_text(path));
}

}  // namespace orrery
