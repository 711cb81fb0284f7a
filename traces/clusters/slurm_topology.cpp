// Readers and writers of Slurm's topology.conf (plugins topology/tree and topology/block) and
// topology.yaml. Keys are case-insensitive. Slurm states neither GPUs nor rates (LinkSpeed is
// information only), and its tree has one switch where the network may have several.
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/names.hpp"
#include "topologies/builder.hpp"
#include "traces/clusters/cluster_readers.hpp"
#include "traces/clusters/cluster_writers.hpp"
#include "traces/jobs/cluster_log.hpp"
#include "traces/workload/framework.hpp"

namespace orrery {
namespace {

constexpr std::size_t kMostNodes = 131072;

/// Collector of switches and blocks with their nodes.
class SlurmTopology {
 public:
  explicit SlurmTopology(const ConfigText& source) : source_(source) {}

  void add_leaf(const std::string& nodes, int line, int column) {
    leaves_.push_back(add_nodes(nodes, line, column));
  }
  void add_block(const std::string& nodes, int line, int column) {
    blocks_.push_back(add_nodes(nodes, line, column));
  }
  void add_upper() { ++uppers_; }

  ClusterFacts facts(const char* format) const {
    if (nodes_.empty())
      source_.throw_error(1, 1, "expected switches or blocks with nodes, found none");
    ClusterFacts out;
    out.nodes = static_cast<std::uint32_t>(nodes_.size());
    const auto most = [](const std::vector<std::size_t>& sizes) {
      return static_cast<std::uint32_t>(*std::max_element(sizes.begin(), sizes.end()));
    };
    if (!leaves_.empty()) {
      out.nodes_per_leaf = most(leaves_);
      state_unequal(leaves_, "leaf switches", out);
    }
    if (!blocks_.empty()) {
      out.nodes_per_domain = most(blocks_);
      state_unequal(blocks_, "blocks", out);
      out.assumed.emplace_back("a block of Slurm as one NVLink domain");
    }
    out.ignored.emplace_back("names of nodes and switches, LinkSpeed, tiers above the second");
    out.read.push_back(fmt::format("{}: {} nodes, {} leaf switches, {} switches above, {} blocks",
                                   format, nodes_.size(), leaves_.size(), uppers_, blocks_.size()));
    return out;
  }

 private:
  std::size_t add_nodes(const std::string& list, int line, int column) {
    const std::vector<std::string> names = expand_host_list(list);
    if (names.empty()) {
      source_.throw_error(
          line, column,
          fmt::format("expected a list of nodes such as gpu[001-016], found '{}'", shown(list)));
    }
    for (const std::string& name : names) {
      if (!nodes_.insert(name).second) {
        source_.throw_error(
            line, column,
            fmt::format("expected each node below one switch, found '{}' twice", shown(name)));
      }
    }
    if (nodes_.size() > kMostNodes) {
      source_.throw_error(line, column, fmt::format("expected at most {} nodes", kMostNodes));
    }
    return names.size();
  }

  static void state_unequal(const std::vector<std::size_t>& sizes, const char* name,
                            ClusterFacts& out) {
    const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
    if (*least == *most) return;
    out.assumed.push_back(fmt::format("{} of {} nodes, where some have {}", name, *most, *least));
  }

  const ConfigText& source_;
  std::set<std::string> nodes_;
  std::vector<std::size_t> leaves_, blocks_;
  std::size_t uppers_ = 0;
};

/// Key and value of a line, with their place.
struct ConfKey {
  std::string value;
  int column = 1;
};

std::map<std::string, ConfKey> keys_of(const ConfigText& source, std::string_view line,
                                       int number) {
  std::map<std::string, ConfKey> keys;
  line = line.substr(0, line.find('#'));
  std::size_t at = 0;
  while (true) {
    at = line.find_first_not_of(" \t\r", at);
    if (at == std::string_view::npos) return keys;
    const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    const std::string_view word = line.substr(at, end - at);
    const std::size_t equals = word.find('=');
    const int column = static_cast<int>(at) + 1;
    if (equals == std::string_view::npos || equals == 0) {
      source.throw_error(
          number, column,
          fmt::format("expected 'Key=value' of topology.conf, found '{}'", shown(word)));
    }
    keys[lower_case(word.substr(0, equals))] = {std::string(word.substr(equals + 1)),
                                                column + static_cast<int>(equals) + 1};
    at = end;
  }
}

void read_conf_line(const ConfigText& source, std::string_view text, int line,
                    SlurmTopology& topology) {
  const std::map<std::string, ConfKey> keys = keys_of(source, text, line);
  if (keys.empty()) return;
  const auto nodes = keys.find("nodes");
  if (keys.contains("blockname")) {
    if (nodes == keys.end()) source.throw_error(line, 1, "expected the key 'Nodes' of a block");
    topology.add_block(nodes->second.value, line, nodes->second.column);
  } else if (keys.contains("switchname")) {
    if (nodes != keys.end()) {
      topology.add_leaf(nodes->second.value, line, nodes->second.column);
    } else if (keys.contains("switches")) {
      topology.add_upper();
    } else {
      source.throw_error(line, 1, "expected the key 'Nodes' or 'Switches' of a switch");
    }
  } else if (!keys.contains("blocksizes")) {
    source.throw_error(line, 1,
                       fmt::format("expected SwitchName, BlockName or BlockSizes, found '{}'",
                                   shown(keys.begin()->first)));
  }
}

/// Reads the switches or blocks of topology.yaml.
void read_yaml_items(const ConfigText& source, const ConfigKeys& topology, const char* part,
                     const char* list, bool is_block, SlurmTopology& out) {
  const YamlNode* const node = topology.find(part);
  if (node == nullptr) return;
  const ConfigKeys keys(source, *node, fmt::format("the key '{}'", part));
  const YamlNode* const items = keys.find(list);
  if (items == nullptr || items->kind != YamlNode::Kind::sequence) {
    keys.throw_error(list, fmt::format("expected a list '{}'", list));
  }
  for (const YamlNode& item : items->items) {
    const ConfigKeys each(source, item, fmt::format("an entry of '{}'", list));
    if (const YamlNode* const nodes = each.find("nodes")) {
      const std::string names = each.word("nodes");
      if (is_block) {
        out.add_block(names, nodes->line, nodes->column);
      } else {
        out.add_leaf(names, nodes->line, nodes->column);
      }
    } else if (!is_block && each.has("children")) {
      out.add_upper();
    } else {
      each.throw_error("", "expected the key 'nodes' or 'children'");
    }
  }
}

/// Returns the nodes of each leaf switch as lists of hosts; one switch has all nodes of a flat
/// fabric.
std::vector<std::string> leaves_of(const Topology& of) {
  const auto form = named(of.fabric().kind(), std::optional(FabricForm::fat_tree));
  if (form != FabricForm::flat && form != FabricForm::fat_tree) {
    throw Error(
        ErrorKind::bad_input,
        fmt::format("Slurm: expected a flat fabric or a fat-tree, found a {}", of.fabric().kind()));
  }
  const std::uint32_t each = form == FabricForm::flat ? of.nodes() : of.fabric().nodes_per_unit();
  const std::size_t width = fmt::format("{}", of.nodes()).size();
  std::vector<std::string> leaves;
  for (std::uint32_t first = 1; first <= of.nodes(); first += each) {
    const std::uint32_t last = std::min(of.nodes(), first + each - 1);
    leaves.push_back(fmt::format("node[{:0{}}-{:0{}}]", first, width, last, width));
  }
  return leaves;
}

}  // namespace

std::string write_slurm_conf(const Topology& of) {
  const std::vector<std::string> leaves = leaves_of(of);
  std::string text;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    text += fmt::format("SwitchName=leaf{} Nodes={}\n", i + 1, leaves[i]);
  }
  if (leaves.size() > 1)
    text += fmt::format("SwitchName=spine Switches=leaf[1-{}]\n", leaves.size());
  return text;
}

std::string write_slurm_yaml(const Topology& of) {
  const std::vector<std::string> leaves = leaves_of(of);
  std::string text = "---\n- topology: default\n  cluster_default: true\n  tree:\n    switches:\n";
  if (leaves.size() > 1) {
    text += fmt::format("      - switch: spine\n        children: leaf[1-{}]\n", leaves.size());
  }
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    text += fmt::format("      - switch: leaf{}\n        nodes: {}\n", i + 1, leaves[i]);
  }
  return text;
}

ClusterFacts read_slurm_conf(const ConfigText& source) {
  SlurmTopology topology(source);
  std::size_t begin = 0;
  for (int line = 1; begin < source.text.size(); ++line) {
    const std::size_t end = std::min(source.text.find('\n', begin), source.text.size());
    read_conf_line(source, source.text.substr(begin, end - begin), line, topology);
    begin = end + 1;
  }
  return topology.facts("topology.conf");
}

ClusterFacts read_slurm_yaml(const ConfigText& source) {
  const YamlNode tree = parse_yaml_tree(source.text, source.file);
  if (tree.kind != YamlNode::Kind::sequence || tree.items.empty()) {
    source.throw_error(1, 1, "expected a list of topologies, as in Slurm's topology.yaml");
  }
  SlurmTopology out(source);
  const ConfigKeys first(source, tree.items.front(), "a topology");
  read_yaml_items(source, first, "tree", "switches", false, out);
  read_yaml_items(source, first, "block", "blocks", true, out);
  ClusterFacts facts = out.facts("topology.yaml");
  if (tree.items.size() > 1) {
    facts.ignored.push_back(fmt::format("{} more topologies", tree.items.size() - 1));
  }
  return facts;
}

}  // namespace orrery
