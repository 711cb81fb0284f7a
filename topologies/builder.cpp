#include "topologies/builder.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include <fmt/format.h>

#include "topologies/catalog.hpp"

namespace orrery {
namespace {

// Routes and names are computed, but a backend keeps state per link: 10^8 of them fit in memory.
constexpr std::uint64_t kMostLinks = 100'000'000;

/// Raises problems of one topology at paths below its own.
class Site {
 public:
  Site(const SourceMap& places, const std::string& path) : places_(places), path_(path) {}

  std::string path(const std::string& inner) const {
    if (inner.empty() || path_.empty()) return path_ + inner;
    return path_ + "." + inner;
  }
  [[noreturn]] void fail(const std::string& inner, const std::string& message) const {
    throw problem_at(places_, path(inner), message);
  }
  const SourceMap& places() const { return places_; }

 private:
  const SourceMap& places_;
  const std::string& path_;
};

/// Keys that belong to one kind of fabric. `tier3`: of a third tier, which is optional.
struct FabricKey {
  FabricForm form;
  const char* name;
  bool (FabricSpec::*has)() const;
  void (FabricSpec::*clear)();
  bool tier3 = false;
};
constexpr std::array kFabricKeys{
    FabricKey{FabricForm::fat_tree, "nodes_per_unit", &FabricSpec::has_nodes_per_unit,
              &FabricSpec::clear_nodes_per_unit},
    FabricKey{FabricForm::fat_tree, "spines", &FabricSpec::has_spines, &FabricSpec::clear_spines},
    FabricKey{FabricForm::fat_tree, "spine_link_bandwidth", &FabricSpec::has_spine_link_bandwidth,
              &FabricSpec::clear_spine_link_bandwidth},
    FabricKey{FabricForm::multi_plane, "planes", &FabricSpec::has_planes,
              &FabricSpec::clear_planes},
    FabricKey{FabricForm::multi_plane, "switch_ports", &FabricSpec::has_switch_ports,
              &FabricSpec::clear_switch_ports},
    FabricKey{FabricForm::ring, "ring_link_bandwidth", &FabricSpec::has_ring_link_bandwidth,
              &FabricSpec::clear_ring_link_bandwidth},
    FabricKey{FabricForm::fat_tree, "units_per_pod", &FabricSpec::has_units_per_pod,
              &FabricSpec::clear_units_per_pod, true},
    FabricKey{FabricForm::fat_tree, "cores", &FabricSpec::has_cores, &FabricSpec::clear_cores,
              true},
    FabricKey{FabricForm::fat_tree, "core_link_bandwidth", &FabricSpec::has_core_link_bandwidth,
              &FabricSpec::clear_core_link_bandwidth, true},
    FabricKey{FabricForm::torus, "dimensions", &FabricSpec::has_dimensions,
              &FabricSpec::clear_dimensions},
    FabricKey{FabricForm::torus, "torus_link_bandwidth", &FabricSpec::has_torus_link_bandwidth,
              &FabricSpec::clear_torus_link_bandwidth},
    FabricKey{FabricForm::dragonfly, "routers_per_group", &FabricSpec::has_routers_per_group,
              &FabricSpec::clear_routers_per_group},
    FabricKey{FabricForm::dragonfly, "nodes_per_router", &FabricSpec::has_nodes_per_router,
              &FabricSpec::clear_nodes_per_router},
    FabricKey{FabricForm::dragonfly, "local_link_bandwidth", &FabricSpec::has_local_link_bandwidth,
              &FabricSpec::clear_local_link_bandwidth},
    FabricKey{FabricForm::dragonfly, "global_link_bandwidth",
              &FabricSpec::has_global_link_bandwidth, &FabricSpec::clear_global_link_bandwidth},
};

FabricForm form_of(const FabricSpec& fabric) {
  return named(fabric.kind(), std::optional(FabricForm::fat_tree));
}

bool has_spines(const FabricSpec& fabric) { return form_of(fabric) <= FabricForm::multi_plane; }

Transport transport_of(const FabricSpec& fabric) {
  const bool planes = form_of(fabric) == FabricForm::multi_plane;
  return named(fabric.transport(),
               std::optional(planes ? Transport::spray : Transport::destination));
}

bool spreads(const FabricSpec& fabric) { return transport_of(fabric) >= Transport::adaptive; }

bool has_third_tier(const FabricSpec& fabric) {
  return fabric.has_units_per_pod() || fabric.has_cores() || fabric.has_core_link_bandwidth();
}

void check_fabric_keys(const FabricSpec& fabric, const Site& site) {
  const FabricForm form = form_of(fabric);
  for (const FabricKey& key : kFabricKeys) {
    const bool written = (fabric.*key.has)();
    const bool needed = !key.tier3 || has_third_tier(fabric);
    if (form == key.form && !written && needed) {
      site.fail("fabric",
                fmt::format("missing key '{}' in fabric: {} needs it", key.name,
                            key.tier3 ? "a third tier" : fmt::format("a {}", name_of(form))));
    }
    if (form != key.form && written) {
      site.fail(fmt::format("fabric.{}", key.name),
                fmt::format("'{}' belongs to a fabric of kind {}, not {}", key.name,
                            name_of(key.form), name_of(form)));
    }
  }
}

void check_fabric(const FabricSpec& fabric, const Site& site) {
  check_fabric_keys(fabric, site);
  const FabricForm form = form_of(fabric);
  const bool two_tiers = has_spines(fabric) && !has_third_tier(fabric);
  if (fabric.in_network_reduction() && !two_tiers && form != FabricForm::flat) {
    site.fail("fabric.in_network_reduction",
              "expected switches of two tiers that add up, found another fabric");
  }
  if (fabric.has_transport() && !has_spines(fabric)) {
    site.fail("fabric.transport", fmt::format("a {} fabric has one way only", name_of(form)));
  }
  if (form != FabricForm::multi_plane || !fabric.has_transport()) return;
  if (!spreads(fabric) && fabric.planes() > 1) {
    site.fail("fabric.transport",
              fmt::format("{} takes one way, and so one of the {} planes: expected spray or "
                          "adaptive", fabric.transport(), fabric.planes()));
  }
}

const TopologyPreset& find_preset(const Topology& topology, const Site& site) {
  for (const TopologyPreset& preset : preset_catalog().presets()) {
    if (preset.name() == topology.preset()) return preset;
  }
  const std::vector<std::string> names = preset_names();
  std::string hint = did_you_mean(topology.preset(), names);
  if (hint.empty()) hint = fmt::format("; known: {}", fmt::join(names, ", "));
  site.fail("preset", fmt::format("unknown preset '{}'{}", topology.preset(), hint));
}

// Values in the file override the preset, one by one.
template <class Part>
void merge(const Part& base, bool has_base, Part* written) {
  Part whole;
  if (has_base) whole = base;
  whole.MergeFrom(*written);
  *written = whole;
}

void take_preset(Topology& topology, const Site& site) {
  if (topology.preset().empty()) return;
  TopologyPreset preset = find_preset(topology, site);
  merge(preset.node(), preset.has_node(), topology.mutable_node());
  FabricSpec& fabric = *preset.mutable_fabric();
  if (topology.fabric().has_kind() && form_of(topology.fabric()) != form_of(fabric)) {
    for (const FabricKey& key : kFabricKeys) (fabric.*key.clear)();
  }
  merge(fabric, true, topology.mutable_fabric());
  merge(preset.price(), preset.has_price(), topology.mutable_price());
}

// Copies the node's GPU model to topology.gpus.
void take_gpu(Topology& topology, const Site& site) {
  std::set<std::string> own;
  for (const GpuSpec& gpu : topology.gpus()) {
    if (!own.insert(gpu.name()).second) {
      site.fail(fmt::format("gpus[{}].name", own.size()),
                fmt::format("GPU '{}' is described twice", gpu.name()));
    }
  }
  const std::string& name = topology.node().gpu();
  if (own.contains(name)) return;
  for (const GpuSpec& gpu : gpu_catalog().gpus()) {
    if (gpu.name() == name) {
      *topology.add_gpus() = gpu;
      return;
    }
  }
  std::vector<std::string> names = gpu_names();
  names.insert(names.end(), own.begin(), own.end());
  std::string hint = did_you_mean(name, names);
  if (hint.empty()) hint = fmt::format("; known: {}", fmt::join(names, ", "));
  site.fail("node.gpu", fmt::format("unknown GPU '{}'{}", name, hint));
}

/// NICs that serve the same GPUs are one rail with the sum of their rates: libraries spread a
/// message over them (aws-ofi-nccl over the four EFA devices of a GPU).
std::uint32_t rails_of(const NodeSpec& node) {
  return std::min(node.nics_per_node(), node.gpus_per_node());
}

/// Two tiers of switches, by hand or by the ports of the switches.
struct Tiers {
  std::uint32_t nodes_per_unit = 0, spines = 0;  ///< sizes within one plane
  std::uint32_t planes = 1;
  double cable_bandwidth = 0;
};

Tiers tiers_of(const Topology& topology) {
  const NodeSpec& node = topology.node();
  const FabricSpec& fabric = topology.fabric();
  if (form_of(fabric) != FabricForm::multi_plane) {
    return {fabric.nodes_per_unit(), fabric.spines(), 1, fabric.spine_link_bandwidth()};
  }
  const std::uint32_t half = fabric.switch_ports() / 2;
  const std::uint32_t nics_per_rail = node.nics_per_node() / rails_of(node);
  return {std::max(1u, half / nics_per_rail), half, fabric.planes(),
          node.nic_bandwidth() / fabric.planes()};
}

/// Returns the dimensions of a torus, for example {8, 8, 4} of "8x8x4".
std::array<std::uint32_t, 3> dimensions_of(const FabricSpec& fabric, const Site& site) {
  std::array<std::uint32_t, 3> sizes{1, 1, 1};
  std::size_t count = 0;
  std::istringstream text(fabric.dimensions());
  std::string part;
  bool valid = !fabric.dimensions().empty() && fabric.dimensions().back() != 'x';
  while (valid && std::getline(text, part, 'x')) {
    const bool digits = !part.empty() && part.size() <= 6 &&
                        part.find_first_not_of("0123456789") == std::string::npos;
    valid = digits && count < sizes.size() && std::stoul(part) > 0;
    if (valid) sizes[count++] = static_cast<std::uint32_t>(std::stoul(part));
  }
  if (!valid) {
    site.fail("fabric.dimensions",
              fmt::format("expected one to three numbers such as 8x8x4, found '{}'",
                          fabric.dimensions()));
  }
  return sizes;
}

/// A torus has a node at every place.
void check_torus(const Topology& topology, const Site& site) {
  if (form_of(topology.fabric()) != FabricForm::torus) return;
  std::uint64_t places = 1;
  for (const std::uint32_t size : dimensions_of(topology.fabric(), site)) places *= size;
  if (places == topology.nodes()) return;
  site.fail("fabric.dimensions", fmt::format("{} have {} places, the cluster {} nodes",
                                             topology.fabric().dimensions(), places,
                                             topology.nodes()));
}

/// Every spine has a port for every leaf of its plane.
void check_ports(const Topology& topology, const Site& site) {
  const FabricSpec& fabric = topology.fabric();
  if (form_of(fabric) != FabricForm::multi_plane) return;
  const std::uint32_t units = (topology.nodes() - 1) / tiers_of(topology).nodes_per_unit + 1;
  const std::uint32_t leaves = units * rails_of(topology.node());
  if (leaves <= fabric.switch_ports()) return;
  site.fail("fabric.switch_ports",
            fmt::format("{} nodes need {} leaf switches a plane, a spine has {} ports",
                        topology.nodes(), leaves, fabric.switch_ports()));
}

/// Returns the number of links of a rail between switches, in one direction.
std::uint64_t links_of_fabric(const Topology& topology) {
  const FabricSpec& fabric = topology.fabric();
  const std::uint64_t nodes = topology.nodes();
  switch (form_of(fabric)) {
    case FabricForm::flat: return 0;
    case FabricForm::ring: return nodes;
    case FabricForm::torus: return 3 * nodes;
    case FabricForm::dragonfly: {
      const std::uint64_t each = fabric.routers_per_group();
      const std::uint64_t groups = (nodes - 1) / (each * fabric.nodes_per_router()) + 1;
      return groups * (each * each + groups);
    }
    default: break;
  }
  const Tiers tiers = tiers_of(topology);
  const std::uint64_t units = (nodes - 1) / tiers.nodes_per_unit + 1;
  if (spreads(fabric)) return 2 * units;
  if (!has_third_tier(fabric)) return units * tiers.spines;
  const std::uint64_t pods = (units - 1) / fabric.units_per_pod() + 1;
  return (units + pods * fabric.cores()) * tiers.spines;
}

void check_shape(const Topology& topology, const Site& site) {
  const NodeSpec& node = topology.node();
  const FabricSpec& fabric = topology.fabric();
  if (topology.nodes() == 0) site.fail("nodes", "'nodes' must be at least 1");
  if (node.gpus_per_node() == 0 || node.nics_per_node() == 0) {
    site.fail("", "node and fabric are not whole");
  }
  check_fabric(fabric, site);
  const std::uint32_t more = std::max(node.nics_per_node(), node.gpus_per_node());
  if (more % rails_of(node) != 0) {
    const bool fewer = node.nics_per_node() < node.gpus_per_node();
    site.fail("node.nics_per_node",
              fmt::format("{} {} do not divide {} {}: every rail serves as many GPUs",
                          rails_of(node), fewer ? "NICs" : "GPUs", more, fewer ? "GPUs" : "NICs"));
  }
  const std::uint64_t nodes = topology.nodes();
  check_ports(topology, site);
  check_torus(topology, site);
  const std::uint64_t fabric_links = links_of_fabric(topology);
  const std::uint64_t links = 2 * nodes * (node.gpus_per_node() + rails_of(node)) +
                              2 * fabric_links * rails_of(node);
  if (links > kMostLinks) {
    site.fail("nodes", fmt::format("the cluster would have {} links; at most {} are supported",
                                   links, kMostLinks));
  }
}

const GpuSpec& find_gpu(const Topology& topology, const Site& site) {
  for (int i = 0; i < topology.gpus_size(); ++i) {
    const GpuSpec& gpu = topology.gpus(i);
    if (gpu.name() != topology.node().gpu()) continue;
    if (gpu.idle_power() > gpu.max_power()) {
      site.fail(fmt::format("gpus[{}].idle_power", i), "'idle_power' is above 'max_power'");
    }
    return gpu;
  }
  site.fail("node.gpu", fmt::format("GPU '{}' is not described", topology.node().gpu()));
}

FabricKind fabric_kind(const FabricSpec& fabric) {
  switch (form_of(fabric)) {
    case FabricForm::flat: return FabricKind::flat;
    case FabricForm::ring: return FabricKind::ring;
    case FabricForm::torus: return FabricKind::torus;
    case FabricForm::dragonfly: return FabricKind::dragonfly;
    default: return FabricKind::fat_tree;
  }
}

/// A chip's dynamic power goes with the cube of its clock where its voltage follows that.
double clock_under(const GpuSpec& spec, const NodeSpec& node, const Site& site) {
  if (!node.has_power_cap() || node.power_cap() >= spec.max_power()) return 1;
  if (node.power_cap() <= spec.idle_power()) {
    site.fail("node.power_cap", fmt::format("{:g} W is not above the {:g} W that a {} draws idling",
                                            node.power_cap(), spec.idle_power(), spec.name()));
  }
  return std::cbrt((node.power_cap() - spec.idle_power()) /
                   (spec.max_power() - spec.idle_power()));
}

GpuModel build_gpu(const GpuSpec& spec, const NodeSpec& node, const Site& site) {
  const double clock = clock_under(spec, node, site);
  ActivityPower activity = spec.activity();
  fill_defaults(activity);
  return {.name = spec.name(),
          .memory = {spec.memory()},
          .memory_bandwidth = {spec.memory_bandwidth()},
          .fp32 = {spec.fp32() * clock},
          .tf32 = {spec.tf32() * clock},
          .bf16 = {spec.bf16() * clock},
          .fp8 = {spec.fp8() * clock},
          .fp4 = {spec.fp4() * clock},
          .nvlink = {spec.nvlink()},
          .pcie = {spec.pcie()},
          .idle_power = {spec.idle_power()},
          .max_power = {spec.max_power()},
          .nvls = spec.nvls(),
          .family = kernel_family(spec),
          .power_cap = {clock < 1 ? node.power_cap() : 0},
          .activity_shares = {activity.products(), activity.memory(), activity.communication(),
                              activity.waiting()}};
}

/// A switch or a sender that spreads traffic detects losses at once.
std::optional<Seconds> reroute_of(const FabricSpec& fabric) {
  constexpr Seconds kSpreading{1e-3};
  if (fabric.has_reroute()) return Seconds{to_seconds(fabric.reroute())};
  return spreads(fabric) ? std::optional(kSpreading) : std::nullopt;
}

/// Returns the bandwidth of the links between the lowest switches, or between neighbours.
double lower_bandwidth(const FabricSpec& fabric, const Tiers& tiers, std::uint32_t cables) {
  switch (form_of(fabric)) {
    case FabricForm::ring: return fabric.ring_link_bandwidth();
    case FabricForm::torus: return fabric.torus_link_bandwidth();
    case FabricForm::dragonfly: return fabric.local_link_bandwidth();
    default: return tiers.cable_bandwidth * cables;
  }
}

/// Returns the mean of a table by the hour; `constant` without a table.
double mean_of(const google::protobuf::RepeatedField<double>& table, double constant) {
  if (table.empty()) return constant;
  return std::accumulate(table.begin(), table.end(), 0.0) / table.size();
}

/// One value holds for all hours, or each hour has its own.
void check_hours(const PriceSpec& price, const Site& site) {
  const auto check = [&site](bool constant, int hours, const char* name) {
    if (!constant || hours == 0) return;
    site.fail(fmt::format("price.{}_by_hour", name),
              fmt::format("expected '{0}' or '{0}_by_hour', found both", name));
  };
  check(price.electricity() > 0, price.electricity_by_hour_size(), "electricity");
  check(price.carbon() > 0, price.carbon_by_hour_size(), "carbon");
}

Price price_of(PriceSpec said, const Site& site) {
  fill_defaults(said);
  check_hours(said, site);
  const auto& money = said.electricity_by_hour();
  const auto& carbon = said.carbon_by_hour();
  // The price is kept per second (SI).
  return {.per_gpu = {said.gpu_hour()},
          .pue = said.pue(),
          .purchase = said.purchase(),
          .lifetime = {to_seconds(said.lifetime())},
          .per_kwh = mean_of(money, said.electricity()),
          .carbon_g_per_kwh = mean_of(carbon, said.carbon()),
          .per_kwh_by_hour = {money.begin(), money.end()},
          .carbon_by_hour = {carbon.begin(), carbon.end()},
          .begins_at = {to_seconds(said.begins_at())}};
}

}  // namespace

/// GPUs of a generation are alike in the shares of their rates that kernels reach. A generation is
/// known by the formats that it computes in: a name changes nothing, and no rate either.
std::string kernel_family(const GpuSpec& spec) {
  if (!spec.family().empty()) return spec.family();
  if (spec.fp4() > 0) return "B200";
  return spec.fp8() > 0 ? "H100" : "A100";
}

void resolve(Topology& topology, const SourceMap& places, const std::string& path) {
  const Site site(places, path);
  take_preset(topology, site);
  if (!topology.has_node() || !topology.has_fabric()) {
    site.fail("", fmt::format("missing key '{}': give a preset, or node and fabric by hand",
                              topology.has_node() ? "fabric" : "node"));
  }
  check_whole(topology.node(), places, site.path("node"));
  check_whole(topology.fabric(), places, site.path("fabric"));
  check_fabric(topology.fabric(), site);
  take_gpu(topology, site);
  fill_defaults(topology);
}

Cluster build_cluster(const Topology& resolved, const SourceMap& places, const std::string& path) {
  const Site site(places, path);
  check_shape(resolved, site);
  const GpuSpec& gpu = find_gpu(resolved, site);
  const NodeSpec& node = resolved.node();
  const FabricSpec& fabric = resolved.fabric();
  const FabricKind kind = fabric_kind(fabric);
  const Tiers tiers = tiers_of(resolved);
  const bool pooled = kind == FabricKind::fat_tree && spreads(fabric);
  const std::uint32_t cables = pooled ? tiers.spines * tiers.planes : 1;
  const std::uint32_t upper_cables = pooled ? cables * fabric.cores() : 1;
  const Cluster::Shape shape = {
      .nodes = resolved.nodes(),
      .gpus_per_node = node.gpus_per_node(),
      .nics_per_node = rails_of(node),
      .nodes_per_unit = tiers.nodes_per_unit,
      .spines = pooled ? 1 : tiers.spines,
      .nic_bandwidth = {node.nic_bandwidth() * node.nics_per_node() / rails_of(node)},
      .spine_link_bandwidth = {lower_bandwidth(fabric, tiers, cables)},
      .nvlink_latency = {fabric.nvlink_latency()},
      .nic_latency = {fabric.nic_latency()},
      .hop_latency = {fabric.hop_latency()},
      .host_power = {node.host_power()},
      .nodes_per_domain = std::max(1u, node.nvlink_domain()),
      .fabric = kind,
      .in_network_reduction = fabric.in_network_reduction(),
      .line_rate = fabric.line_rate(),
      .transport = transport_of(fabric),
      .planes = tiers.planes,
      .cables = cables,
      .paths = fabric.paths(),
      .reroute = reroute_of(fabric),
      .hash_seed = fabric.hash_seed(),
      .units_per_pod = fabric.units_per_pod(),
      .cores = pooled ? 1 : std::max(1u, fabric.cores()),
      .upper_link_bandwidth = {kind == FabricKind::dragonfly
                                   ? fabric.global_link_bandwidth()
                                   : fabric.core_link_bandwidth() * upper_cables},
      .torus = kind == FabricKind::torus ? dimensions_of(fabric, site)
                                         : std::array<std::uint32_t, 3>{1, 1, 1},
      .routers_per_group = std::max(1u, fabric.routers_per_group()),
      .nodes_per_router = std::max(1u, fabric.nodes_per_router()),
  };
  return Cluster(build_gpu(gpu, node, site), shape, price_of(resolved.price(), site));
}

}  // namespace orrery
