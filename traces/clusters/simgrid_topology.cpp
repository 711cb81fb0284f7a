// Reader and writer of SimGrid's platform XML (simgrid.dtd 4.1): <cluster> with its topology,
// <cabinet> and <host>. A host is a node; its link is the node's NICs together. SimGrid knows no
// GPUs: properties of `orrery export cluster` name them (<prop id="orrery.gpu" value="H100"/>).
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "core/schema/names.hpp"
#include "topologies/builder.hpp"
#include "traces/clusters/cluster_readers.hpp"
#include "traces/clusters/cluster_writers.hpp"
#include "traces/clusters/xml_tree.hpp"

namespace orrery {
namespace {

constexpr std::uint32_t kMostNodes = 131072;
/// Topologies of <cluster>, and properties that SimGrid ignores.
constexpr std::string_view kFatTree = "FAT_TREE", kTorus = "TORUS", kDragonfly = "DRAGONFLY";
constexpr std::string_view kGpu = "orrery.gpu", kGpus = "orrery.gpus_per_node",
                           kNics = "orrery.nics_per_node", kDomain = "orrery.nvlink_domain",
                           kNode = "orrery.node_bandwidth", kHop = "orrery.hop_latency";

struct Unit {
  std::string_view name;
  double factor;
};
constexpr std::array kRates{Unit{"", 1},           Unit{"Bps", 1},        Unit{"kBps", 1e3},
                            Unit{"MBps", 1e6},     Unit{"GBps", 1e9},     Unit{"TBps", 1e12},
                            Unit{"KiBps", 0x1p10}, Unit{"MiBps", 0x1p20}, Unit{"GiBps", 0x1p30},
                            Unit{"TiBps", 0x1p40}, Unit{"bps", 0.125},    Unit{"kbps", 125},
                            Unit{"Mbps", 125e3},   Unit{"Gbps", 125e6},   Unit{"Tbps", 125e9}};
constexpr std::array kTimes{Unit{"", 1},      Unit{"ns", 1e-9}, Unit{"us", 1e-6},
                            Unit{"ms", 1e-3}, Unit{"s", 1},     Unit{"m", 60}};

/// Shape of a network as <cluster> states it, one entry a level or dimension.
using Numbers = std::vector<std::uint32_t>;

/// Reader of the values of attributes, with the places of problems.
class Values {
 public:
  explicit Values(const ConfigText& source) : source_(source) {}

  [[noreturn]] void fail(const XmlElement& element, const std::string& message) const {
    source_.throw_error(element.line, element.column, message);
  }
  [[noreturn]] void fail(const XmlAttribute& value, const char* expected) const {
    source_.throw_error(
        value.line, value.column,
        fmt::format("expected {} for '{}', found '{}'", expected, value.name, shown(value.value)));
  }

  template <std::size_t Count>
  double quantity(const XmlAttribute& from, const std::array<Unit, Count>& units,
                  const char* expected) const {
    double value = 0;
    const char* const begin = from.value.data();
    const char* const end = begin + from.value.size();
    const auto [read, problem] = std::from_chars(begin, end, value);
    const std::string_view rest(read, static_cast<std::size_t>(end - read));
    const auto unit = std::find_if(units.begin(), units.end(),
                                   [&](const Unit& each) { return each.name == rest; });
    if (problem != std::errc() || unit == units.end() || !(value >= 0 && value < 1e18)) {
      fail(from, expected);
    }
    return value * unit->factor;
  }

  /// Returns the number of hosts of a list such as "0-255" or "1,3-5".
  std::uint32_t radical(const XmlElement& element) const {
    const XmlAttribute* const list = element.find("radical");
    if (list == nullptr) fail(element, "expected the attribute 'radical'");
    std::uint64_t count = 0;
    const char* at = list->value.data();
    const char* const end = at + list->value.size();
    while (at != end) {
      std::uint32_t first = 0, last = 0;
      auto read = std::from_chars(at, end, first);
      if (read.ec != std::errc()) break;
      last = first;
      if (read.ptr != end && *read.ptr == '-') read = std::from_chars(read.ptr + 1, end, last);
      if (read.ec != std::errc() || last < first) break;
      count += last - first + 1;
      at = read.ptr;
      if (at == end) return static_cast<std::uint32_t>(std::min<std::uint64_t>(count, 1 << 30));
      if (*at++ != ',') break;
    }
    fail(*list, "numbers such as 0-255");
  }

  /// Returns numbers from 1 to 131,072 in groups: "2;4,4;1,2" has the groups {2}, {4, 4}, {1, 2}.
  std::vector<Numbers> groups(const XmlAttribute& form) const {
    std::vector<Numbers> found(1);
    const char* at = form.value.data();
    const char* const end = at + form.value.size();
    while (true) {
      std::uint32_t value = 0;
      const auto [read, problem] = std::from_chars(at, end, value);
      if (problem != std::errc() || value == 0 || value > kMostNodes) {
        fail(form, "numbers from 1 on, separated by ',' and ';'");
      }
      found.back().push_back(value);
      if (read == end) return found;
      if (*read == ';') found.emplace_back();
      if (*read != ';' && *read != ',') fail(form, "numbers separated by ',' and ';'");
      at = read + 1;
    }
  }

  void check_places(const XmlAttribute& form, const Numbers& sizes, std::uint32_t hosts) const {
    std::uint64_t places = 1;
    for (const std::uint32_t size : sizes) places = std::min<std::uint64_t>(places * size, 1 << 30);
    if (places == hosts) return;
    source_.throw_error(
        form.line, form.column,
        fmt::format("expected a network of {} hosts, found {} places", hosts, places));
  }

  std::uint32_t count_of(const XmlAttribute& value) const {
    std::uint32_t count = 0;
    const char* const end = value.value.data() + value.value.size();
    const auto [read, problem] = std::from_chars(value.value.data(), end, count);
    if (problem != std::errc() || read != end || count == 0 || count > kMostNodes) {
      fail(value, "a count from 1 on");
    }
    return count;
  }

 private:
  const ConfigText& source_;
};

/// Collector of the hosts of one platform.
class SimgridReader {
 public:
  explicit SimgridReader(const ConfigText& source) : source_(source), values_(source) {}

  ClusterFacts read() {
    const XmlElement root = parse_xml_tree(source_);
    if (root.name != "platform") {
      source_.throw_error(
          root.line, root.column,
          fmt::format("expected the element 'platform' of SimGrid, found '{}'", shown(root.name)));
    }
    visit(root);
    if (hosts_ == 0) {
      source_.throw_error(root.line, root.column,
                          "expected at least one element 'host', 'cabinet' or 'cluster', found "
                          "none");
    }
    return facts();
  }

 private:
  void visit(const XmlElement& element) {
    if (element.name == "include") {
      values_.fail(element, "expected a platform in one file, found 'include'");
    }
    if (element.name == "host") add_hosts(element, 1);
    if (element.name == "cabinet") visit_cabinet(element);
    if (element.name == "cluster") visit_cluster(element);
    if (element.name == "prop") visit_property(element);
    if (element.name == "route" || element.name == "zoneRoute") ++routes_;
    for (const XmlElement& child : element.children) visit(child);
  }

  void add_hosts(const XmlElement& element, std::uint32_t count) {
    if (count > kMostNodes - hosts_) {
      values_.fail(element, fmt::format("expected at most {} hosts", kMostNodes));
    }
    hosts_ += count;
  }

  /// Reads the link of one host or the hosts of a cluster.
  void visit_link(const XmlElement& element) {
    if (const XmlAttribute* const rate = element.find("bw")) {
      const double found = values_.quantity(*rate, kRates, "a rate such as 125MBps");
      if (rate_ > 0 && found != rate_) differs_ = true;
      rate_ = rate_ == 0 ? found : std::min(rate_, found);
    }
    if (const XmlAttribute* const latency = element.find("lat")) {
      latency_ = values_.quantity(*latency, kTimes, "a time such as 50us");
      if (*latency_ > 1) values_.fail(*latency, "at most 1 s");
    }
  }

  void visit_cabinet(const XmlElement& element) {
    add_hosts(element, values_.radical(element));
    visit_link(element);
  }

  void visit_cluster(const XmlElement& element) {
    ++clusters_;
    const std::uint32_t count = values_.radical(element);
    add_hosts(element, count);
    visit_link(element);
    backbone_ = backbone_ || element.find("bb_bw") != nullptr;
    const std::string_view topology = element.value("topology");
    if (topology.empty() || topology == "FLAT") return;
    const XmlAttribute* const form = element.find("topo_parameters");
    if (form == nullptr) values_.fail(element, "expected the attribute 'topo_parameters'");
    if (rate_ == 0) values_.fail(element, "expected the attribute 'bw'");
    if (topology == kFatTree) {
      visit_fat_tree(*form, count);
    } else if (topology == kTorus) {
      visit_torus(*form, count);
    } else if (topology == kDragonfly) {
      visit_dragonfly(*form, count);
    } else {
      values_.fail(*element.find("topology"), "FLAT, FAT_TREE, TORUS or DRAGONFLY");
    }
  }

  /// "2;4,4;1,2;1,2": levels; children, parents and parallel links of each.
  void visit_fat_tree(const XmlAttribute& form, std::uint32_t hosts) {
    const std::vector<Numbers> given = values_.groups(form);
    const bool whole = given.size() == 4 && given[0].size() == 1 && given[0][0] <= 3 &&
                       std::all_of(given.begin() + 1, given.end(),
                                   [&](const Numbers& each) { return each.size() == given[0][0]; });
    if (!whole || given[2][0] != 1) {
      values_.fail(form, "a tree of at most three levels whose hosts have one switch");
    }
    const Numbers &down = given[1], &up = given[2], &links = given[3];
    values_.check_places(form, down, hosts);
    host_links_ = links[0];
    fabric_.set_kind("flat");
    if (down.size() == 1) return;
    fabric_.set_kind("fat-tree");
    fabric_.set_nodes_per_unit(down[0]);
    fabric_.set_spines(up[1]);
    fabric_.set_spine_link_bandwidth(rate_ * links[1]);
    if (down.size() == 2) return;
    fabric_.set_units_per_pod(down[1]);
    fabric_.set_cores(up[2]);
    fabric_.set_core_link_bandwidth(rate_ * links[2]);
  }

  void visit_torus(const XmlAttribute& form, std::uint32_t hosts) {
    const std::vector<Numbers> given = values_.groups(form);
    if (given.size() != 1 || given[0].size() > 3) values_.fail(form, "one to three dimensions");
    values_.check_places(form, given[0], hosts);
    fabric_.set_kind("torus");
    fabric_.set_dimensions(fmt::format("{}", fmt::join(given[0], "x")));
    fabric_.set_torus_link_bandwidth(rate_);
  }

  /// "3,4;3,2;3,1;2": groups, chassis of a group and routers of a chassis, each with the number of
  /// parallel links; hosts of a router.
  void visit_dragonfly(const XmlAttribute& form, std::uint32_t hosts) {
    const std::vector<Numbers> given = values_.groups(form);
    const bool whole = given.size() == 4 && given[0].size() == 2 && given[1].size() == 2 &&
                       given[2].size() == 2 && given[3].size() == 1;
    if (!whole) values_.fail(form, "groups,links;chassis,links;routers,links;hosts");
    values_.check_places(form, {given[0][0], given[1][0], given[2][0], given[3][0]}, hosts);
    joined_chassis_ = given[1][0] > 1;
    fabric_.set_kind("dragonfly");
    fabric_.set_routers_per_group(given[1][0] * given[2][0]);
    fabric_.set_nodes_per_router(given[3][0]);
    fabric_.set_local_link_bandwidth(rate_ * given[2][1]);
    fabric_.set_global_link_bandwidth(rate_ * given[0][1]);
  }

  void visit_property(const XmlElement& property) {
    const std::string_view id = property.value("id");
    const XmlAttribute* const value = property.find("value");
    if (value == nullptr) return;
    if (id == kGpu) out_.gpu = value->value;
    if (id == kGpus) out_.gpus_per_node = values_.count_of(*value);
    if (id == kNics) out_.nics_per_node = values_.count_of(*value);
    if (id == kDomain) out_.nodes_per_domain = values_.count_of(*value);
    if (id == kNode) node_rate_ = values_.quantity(*value, kRates, "a rate such as 125MBps");
    if (id == kHop) hop_ = values_.quantity(*value, kTimes, "a time such as 500ns");
  }

  ClusterFacts facts() {
    out_.nodes = hosts_;
    out_.node_bandwidth = node_rate_ > 0 ? node_rate_ : rate_ * host_links_;
    if (!fabric_.has_kind() || clusters_ > 1) {
      fabric_.Clear();
      fabric_.set_kind("flat");
    }
    if (latency_) {
      // Two links of hosts and one switch; one more link for each further switch.
      fabric_.set_nic_latency(2 * *latency_);
      fabric_.set_hop_latency(hop_.value_or(*latency_));
    }
    out_.fabric = fabric_;
    if (differs_) out_.assumed.emplace_back("all links of hosts as slow as the slowest");
    if (joined_chassis_) out_.assumed.emplace_back("the routers of all chassis of a group in one");
    if (clusters_ > 1) out_.assumed.emplace_back("all clusters as one, without a bottleneck");
    if (backbone_) out_.assumed.emplace_back("backbones as wide as the links of all hosts");
    if (routes_ > 0) out_.ignored.push_back(fmt::format("{} routes", routes_));
    out_.ignored.emplace_back("names, speeds and cores of hosts");
    out_.read.push_back(fmt::format("platform of SimGrid: {} hosts, {}", hosts_, fabric_.kind()));
    return std::move(out_);
  }

  const ConfigText& source_;
  const Values values_;
  ClusterFacts out_;
  FabricSpec fabric_;
  std::uint32_t hosts_ = 0, clusters_ = 0, routes_ = 0, host_links_ = 1;
  double rate_ = 0, node_rate_ = 0;  ///< slowest link of a host; rate of a node's NICs
  std::optional<double> latency_, hop_;
  bool differs_ = false, backbone_ = false, joined_chassis_ = false;
};

[[noreturn]] void refuse(const char* expected, const std::string& found) {
  throw Error(ErrorKind::bad_input, fmt::format("SimGrid: expected {}, found {}", expected, found));
}

/// Returns the number of parallel links of a host's rate that make up a link of another tier.
std::uint32_t links_of(double rate, double of_host, const char* key) {
  const double count = std::round(rate / of_host);
  if (count >= 1 && std::abs(rate / of_host - count) < 1e-9) {
    return static_cast<std::uint32_t>(count);
  }
  refuse("links between switches of a multiple of a node's rate",
         fmt::format("fabric.{} of {:g} times the rate", key, rate / of_host));
}

/// Returns the parameters of a fat tree, as visit_fat_tree() reads them.
std::string tree_form(const Topology& of, double rails, double of_host) {
  const FabricSpec& fabric = of.fabric();
  const std::uint32_t unit = std::min(fabric.nodes_per_unit(), of.nodes());
  const std::uint32_t links =
      links_of(rails * fabric.spine_link_bandwidth(), of_host, "spine_link_bandwidth");
  const std::uint32_t units = of.nodes() / unit;
  const std::uint32_t pod = std::min(units, std::max(1u, fabric.units_per_pod()));
  if (of.nodes() % unit != 0 || units % pod != 0) {
    refuse("full units and pods, as SimGrid's trees have them",
           fmt::format("{} nodes", of.nodes()));
  }
  if (!fabric.has_units_per_pod()) {
    return fmt::format("2;{},{};1,{};1,{}", unit, units, fabric.spines(), links);
  }
  const std::uint32_t above =
      links_of(rails * fabric.core_link_bandwidth(), of_host, "core_link_bandwidth");
  return fmt::format("3;{},{},{};1,{},{};1,{},{}", unit, pod, units / pod, fabric.spines(),
                     fabric.cores(), links, above);
}

std::string dragonfly_form(const Topology& of, double rails, double of_host) {
  const FabricSpec& fabric = of.fabric();
  const std::uint32_t group = fabric.routers_per_group() * fabric.nodes_per_router();
  if (of.nodes() % group != 0) {
    refuse("full groups, as SimGrid's dragonflies have them", fmt::format("{} nodes", of.nodes()));
  }
  return fmt::format(
      "{},{};1,1;{},{};{}", of.nodes() / group,
      links_of(rails * fabric.global_link_bandwidth(), of_host, "global_link_bandwidth"),
      fabric.routers_per_group(),
      links_of(rails * fabric.local_link_bandwidth(), of_host, "local_link_bandwidth"),
      fabric.nodes_per_router());
}

/// Network of a <cluster>: the rate of its links, and its topology as attributes.
struct Network {
  double rate = 0;
  std::string attributes;
};

Network network_of(const Topology& of) {
  const NodeSpec& node = of.node();
  const double rails = std::min(node.nics_per_node(), node.gpus_per_node());
  const double of_host = node.nics_per_node() * node.nic_bandwidth();
  const auto shaped = [](std::string_view topology, const std::string& form) {
    return fmt::format(" topology=\"{}\" topo_parameters=\"{}\"", topology, form);
  };
  switch (named(of.fabric().kind(), std::optional(FabricForm::fat_tree))) {
    case FabricForm::flat: return {of_host, ""};
    case FabricForm::fat_tree: return {of_host, shaped(kFatTree, tree_form(of, rails, of_host))};
    case FabricForm::dragonfly:
      return {of_host, shaped(kDragonfly, dragonfly_form(of, rails, of_host))};
    case FabricForm::torus: {
      std::string sizes = of.fabric().dimensions();
      std::replace(sizes.begin(), sizes.end(), 'x', ',');
      return {rails * of.fabric().torus_link_bandwidth(), shaped(kTorus, sizes)};
    }
    default: refuse("a flat fabric, a fat-tree, a torus or a dragonfly", of.fabric().kind());
  }
}

}  // namespace

std::string write_simgrid_platform(const Topology& of) {
  const NodeSpec& node = of.node();
  const FabricSpec& fabric = of.fabric();
  const Network network = network_of(of);
  const auto property = [](std::string_view id, const std::string& value) {
    return fmt::format("    <prop id=\"{}\" value=\"{}\"/>\n", id, value);
  };
  std::string text = fmt::format(
      "<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM "
      "\"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">\n"
      "  <cluster id=\"cluster\" prefix=\"node-\" suffix=\"\" radical=\"0-{}\" speed=\"{}f\" "
      "bw=\"{}Bps\" lat=\"{}s\"{}>\n",
      of.nodes() - 1, node.gpus_per_node() * of.gpus(0).bf16(), network.rate,
      fabric.nic_latency() / 2, network.attributes);
  text += property(kGpu, node.gpu());
  text += property(kGpus, fmt::format("{}", node.gpus_per_node()));
  text += property(kNics, fmt::format("{}", node.nics_per_node()));
  text += property(kNode, fmt::format("{}Bps", node.nics_per_node() * node.nic_bandwidth()));
  text += property(kHop, fmt::format("{}s", fabric.hop_latency()));
  if (node.nvlink_domain() > 1) text += property(kDomain, fmt::format("{}", node.nvlink_domain()));
  return text + "  </cluster>\n</platform>\n";
}

ClusterFacts read_simgrid_platform(const ConfigText& source) {
  return SimgridReader(source).read();
}

}  // namespace orrery
