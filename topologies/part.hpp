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
enum class PartKind : std::uint8_t { gpu, node, nic, link, leaf, spine, plane, storage };
inline constexpr int kPartKinds = 8;

struct Part {
  PartKind kind{};
  std::uint32_t index = 0;
  friend auto operator<=>(const Part&, const Part&) = default;
};

std::string_view name_of(PartKind kind);  ///< "nic"
std::string part_name(Part part);         ///< "nic 17"

/// How many parts of a kind there are; 0 where the fabric has none (spines of a ring).
std::uint32_t count_of(const Cluster& cluster, PartKind kind);
/// The links that are gone with the part, ascending; a node's are those of its GPUs and NICs.
std::vector<LinkId> links_of(const Cluster& cluster, Part part);
/// The GPUs that are gone with the part: of a GPU itself, of a node all, of others none.
std::vector<GpuId> gpus_of(const Cluster& cluster, Part part);

}  // namespace orrery
