// Cluster files of other tools: recognising by contents, and reading into facts. Called by
// `orrery import cluster-file` and `orrery describe`. docs/models.md lists the fields that each
// reader uses. Thread-safe: no state between calls.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/schema/names.hpp"
#include "traces/clusters/cluster_facts.hpp"

namespace orrery {

/// Formats of cluster files.
enum class ClusterFormat : std::uint8_t {
  nccl,
  nvidia_smi,
  slurm_conf,
  slurm_yaml,
  ibnetdiscover,
  hwloc,
  simgrid,
};
constexpr std::array<std::string_view, 7> names_of(ClusterFormat) {
  return {"NCCL topology XML", "nvidia-smi topo -m", "Slurm topology.conf", "Slurm topology.yaml",
          "ibnetdiscover",     "hwloc XML",          "SimGrid platform XML"};
}

/// Returns the format of a text by its contents; nothing if it is no cluster of another tool.
std::optional<ClusterFormat> cluster_format(std::string_view text);

/// Returns the facts of a text of any known format. Throws bad_input with the place, also for a
/// text of no known format. `file` is for messages.
ClusterFacts parse_cluster_file(std::string_view text, const std::string& file);

}  // namespace orrery
