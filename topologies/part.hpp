// One name for whatever of a cluster can break or slow down: a kind and an index, and which GPUs
// and links of the cluster that is. Faults, conditions and drains speak of parts. Plain values and
// pure functions; safe from any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.hpp"
#include "topologies/cluster.hpp"

namespace orrery {

/// Indices: of a GPU, node and directed link their ids; of a NIC node x rails + rail; of a leaf
/// switch unit x rails + rail. A spine joins the leaves of all rails; a plane is all that serves
/// one rail: its NICs, leaves and their links. Storage is one.
/// Where NICs have ports in several planes, leaves and spines are those of one plane (leaf x planes
/// + plane, spine x planes + plane), and a plane is one of these networks. A port is NIC x planes +
/// plane; a cable, both directions, leaf x spines x planes + spine x planes + plane. What of these
/// is gone is a share of the links that it belongs to.
enum class PartKind : std::uint8_t {
  gpu, node, nic, link, leaf, spine, plane, storage, port, cable
};
inline constexpr int kPartKinds = 10;

struct Part {
  PartKind kind{};
  std::uint32_t index = 0;
  friend auto operator<=>(const Part&, const Part&) = default;
};

std::string_view name_of(PartKind kind);  ///< "nic"
std::string part_name(Part part);         ///< "nic 17"

/// How many parts of a kind there are; 0 where the fabric has none (spines of a ring).
std::uint32_t count_of(const Cluster& cluster, PartKind kind);
/// The links that are gone with the part, or that it is a share of, ascending; a node's are those
/// of its GPUs and NICs.
std::vector<LinkId> links_of(const Cluster& cluster, Part part);
/// How much of these links is gone with the part.
double share_of(const Cluster& cluster, PartKind kind);
/// The GPUs that are gone with the part: of a GPU itself, of a node all, of others none.
std::vector<GpuId> gpus_of(const Cluster& cluster, Part part);

}  // namespace orrery
