// Parts of a cluster that can break or slow down: a kind and an index, with the GPUs and links that
// belong to the part. Used by faults, conditions and drains. Plain values and pure functions;
// thread-safe.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.hpp"
#include "core/schema/names.hpp"
#include "topologies/cluster.hpp"

namespace orrery {

/// Kinds of parts and their indices: for a GPU, node and directed link their ids; for a NIC node x
/// rails + rail; for a leaf switch unit x rails + rail. A spine (in three tiers pod x spines +
/// spine) joins the leaves of all rails; a plane is all that serves one rail: NICs, leaves and
/// their links. There is one storage. If NICs have ports in several planes, leaves and spines are
/// of one plane (leaf x planes + plane, spine x planes + plane), and a plane is one of these
/// networks. A port is NIC x planes + plane; a cable, both directions, leaf x spines x planes +
/// spine x planes + plane. The loss of a port or cable takes a part of its links.
enum class PartKind : std::uint8_t {
  gpu, node, nic, link, leaf, spine, plane, storage, port, cable
};
inline constexpr std::size_t kPartKinds = 10;
constexpr std::array<std::string_view, kPartKinds> names_of(PartKind) {
  return {"gpu", "node", "nic", "link", "leaf", "spine", "plane", "storage", "port", "cable"};
}

/// Part by kind and index.
struct Part {
  PartKind kind{};
  std::uint32_t index = 0;
  friend auto operator<=>(const Part&, const Part&) = default;
};

/// Announced removal of a part, and its return if that is stated. For example, {.at = 90 s,
/// .back_at = 300 s} or {.at_step = 20}. Instants are nanoseconds of the policy clock.
struct Removal {
  std::optional<Nanos> at;  ///< instant of the removal; nothing: before step `at_step`
  std::optional<Step> at_step;
  std::optional<Nanos> back_at;  ///< instant of the return; nothing: by step, never, or not stated
  std::optional<Step> back_at_step;
  friend bool operator==(const Removal&, const Removal&) = default;
};

std::string part_name(Part part);  ///< for example "nic 17"

/// Returns the number of parts of a kind; 0 if the fabric has none (spines of a ring).
std::uint32_t count_of(const Cluster& cluster, PartKind kind);
/// Returns the links that are lost with the part, or of which it is a fraction, ascending; a node's
/// are those of its GPUs and NICs; the storage has none. The index must be below count_of().
std::vector<LinkId> links_of(const Cluster& cluster, Part part);
/// Returns the fraction of these links that is lost with the part; 1 for most kinds.
double share_of(const Cluster& cluster, PartKind kind);
/// Returns the GPUs that are lost with the part, ascending: a GPU itself, all of a node, none of
/// others. The index must be below count_of().
std::vector<GpuId> gpus_of(const Cluster& cluster, Part part);

}  // namespace orrery
