#include "topologies/part.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace orrery {
namespace {

bool is_fat_tree(const Cluster& cluster) {
  return cluster.shape().fabric == FabricKind::fat_tree && cluster.shape().spines > 0;
}

void add_nic(const Cluster& cluster, NodeId node, std::uint32_t rail, std::vector<LinkId>& out) {
  out.push_back(cluster.nic_out(node, rail));
  out.push_back(cluster.nic_in(node, rail));
}
void add_nic(const Cluster& cluster, std::uint32_t nic, std::vector<LinkId>& out) {
  add_nic(cluster, {nic / cluster.rails()}, nic % cluster.rails(), out);
}

/// `way`: leaf x spines + spine.
void add_cable(const Cluster& cluster, std::uint32_t way, std::vector<LinkId>& out) {
  const std::uint32_t leaf = way / cluster.shape().spines, spine = way % cluster.shape().spines;
  out.push_back(cluster.leaf_up(leaf / cluster.rails(), leaf % cluster.rails(), spine));
  out.push_back(cluster.leaf_down(leaf / cluster.rails(), leaf % cluster.rails(), spine));
}

/// A leaf switch: the NICs on it and its links up.
void add_leaf(const Cluster& cluster, std::uint32_t leaf, std::vector<LinkId>& out) {
  const std::uint32_t unit = leaf / cluster.rails(), rail = leaf % cluster.rails();
  for (std::uint32_t node = 0; node < cluster.nodes(); ++node) {
    if (cluster.unit_of({node}) == unit) add_nic(cluster, {node}, rail, out);
  }
  for (std::uint32_t spine = 0; spine < cluster.shape().spines; ++spine) {
    out.push_back(cluster.leaf_up(unit, rail, spine));
    out.push_back(cluster.leaf_down(unit, rail, spine));
  }
}

/// `spine`: pod x spines + spine; the spine joins the leaves of its pod, and the cores above it.
void add_spine(const Cluster& cluster, std::uint32_t spine, std::vector<LinkId>& out) {
  const Cluster::Shape& shape = cluster.shape();
  const std::uint32_t pod = spine / shape.spines, of_pod = spine % shape.spines;
  for (std::uint32_t rail = 0; rail < cluster.rails(); ++rail) {
    for (std::uint32_t unit = 0; unit < cluster.units(); ++unit) {
      if (cluster.pod_of(unit) != pod) continue;
      out.push_back(cluster.leaf_up(unit, rail, of_pod));
      out.push_back(cluster.leaf_down(unit, rail, of_pod));
    }
    for (std::uint32_t core = 0; shape.units_per_pod > 0 && core < shape.cores; ++core) {
      out.push_back(cluster.core_up(pod, rail, of_pod, core));
      out.push_back(cluster.core_down(pod, rail, of_pod, core));
    }
  }
}

/// All links of a dragonfly's routers on a rail.
void add_routers(const Cluster& cluster, std::uint32_t rail, std::vector<LinkId>& out) {
  const std::uint32_t each = cluster.shape().routers_per_group, groups = cluster.groups();
  for (std::uint32_t router = 0; router < groups * each; ++router) {
    for (std::uint32_t to = 0; to < each; ++to) {
      out.push_back(cluster.group_local(router, rail, to));
    }
  }
  for (std::uint32_t from = 0; from < groups; ++from) {
    for (std::uint32_t to = 0; to < groups; ++to) {
      out.push_back(cluster.group_global(from, rail, to));
    }
  }
}

void add_plane(const Cluster& cluster, std::uint32_t rail, std::vector<LinkId>& out) {
  if (is_fat_tree(cluster)) {
    for (std::uint32_t unit = 0; unit < cluster.units(); ++unit) {
      add_leaf(cluster, unit * cluster.rails() + rail, out);
    }
    return;
  }
  const FabricKind fabric = cluster.shape().fabric;
  for (std::uint32_t node = 0; node < cluster.nodes(); ++node) {
    add_nic(cluster, {node}, rail, out);
    if (fabric == FabricKind::ring) {
      out.push_back(cluster.ring_next({node}, rail));
      out.push_back(cluster.ring_back({node}, rail));
    }
    for (std::uint32_t dimension = 0; fabric == FabricKind::torus && dimension < 3; ++dimension) {
      out.push_back(cluster.torus_link({node}, rail, dimension, true));
      out.push_back(cluster.torus_link({node}, rail, dimension, false));
    }
  }
  if (fabric == FabricKind::dragonfly) add_routers(cluster, rail, out);
}

void add_node(const Cluster& cluster, Part node, std::vector<LinkId>& out) {
  for (const GpuId gpu : gpus_of(cluster, node)) {
    out.push_back(cluster.nvlink_out(gpu));
    out.push_back(cluster.nvlink_in(gpu));
  }
  for (std::uint32_t rail = 0; rail < cluster.rails(); ++rail) {
    add_nic(cluster, {node.index}, rail, out);
  }
}

}  // namespace

std::string part_name(Part part) { return fmt::format("{} {}", name_of(part.kind), part.index); }

std::uint32_t count_of(const Cluster& cluster, PartKind kind) {
  const std::uint32_t planes = cluster.shape().planes;
  const std::uint32_t leaves = cluster.units() * cluster.rails();
  switch (kind) {
    case PartKind::gpu: return cluster.gpus();
    case PartKind::node: return cluster.nodes();
    case PartKind::nic: return cluster.nodes() * cluster.rails();
    case PartKind::link: return cluster.links();
    case PartKind::leaf: return is_fat_tree(cluster) ? cluster.switches().leaves : 0;
    case PartKind::spine: return is_fat_tree(cluster) ? cluster.switches().spines : 0;
    case PartKind::plane: return planes > 1 ? planes : cluster.rails();
    case PartKind::storage: return 1;
    case PartKind::port: return cluster.nodes() * cluster.rails() * planes;
    case PartKind::cable: return is_fat_tree(cluster) ? leaves * cluster.switches().paths : 0;
  }
  return 0;
}

std::vector<LinkId> links_of(const Cluster& cluster, Part part) {
  const std::uint32_t planes = cluster.shape().planes;
  std::vector<LinkId> links;
  switch (part.kind) {
    case PartKind::gpu:
      links = {cluster.nvlink_out({part.index}), cluster.nvlink_in({part.index})};
      break;
    case PartKind::node: add_node(cluster, part, links); break;
    case PartKind::nic: add_nic(cluster, part.index, links); break;
    case PartKind::link: links = {{part.index}}; break;
    case PartKind::leaf: add_leaf(cluster, part.index / planes, links); break;
    case PartKind::spine: add_spine(cluster, part.index / cluster.shape().cables, links); break;
    case PartKind::plane:
      for (std::uint32_t rail = 0; rail < cluster.rails(); ++rail) {
        if (planes > 1 || rail == part.index) add_plane(cluster, rail, links);
      }
      break;
    case PartKind::storage: break;
    case PartKind::port: add_nic(cluster, part.index / planes, links); break;
    case PartKind::cable: add_cable(cluster, part.index / cluster.shape().cables, links); break;
  }
  std::sort(links.begin(), links.end());
  return links;
}

double share_of(const Cluster& cluster, PartKind kind) {
  const Cluster::Shape& shape = cluster.shape();
  switch (kind) {
    case PartKind::leaf:
    case PartKind::plane:
    case PartKind::port: return 1.0 / shape.planes;
    case PartKind::spine:
    case PartKind::cable: return 1.0 / shape.cables;
    default: return 1;
  }
}

std::vector<GpuId> gpus_of(const Cluster& cluster, Part part) {
  if (part.kind == PartKind::gpu) return {{part.index}};
  std::vector<GpuId> gpus;
  if (part.kind != PartKind::node) return gpus;
  const std::uint32_t each = cluster.shape().gpus_per_node;
  for (std::uint32_t i = 0; i < each; ++i) gpus.push_back({part.index * each + i});
  return gpus;
}

}  // namespace orrery
