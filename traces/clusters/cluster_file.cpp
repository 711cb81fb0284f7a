#include "traces/clusters/cluster_file.hpp"

#include "core/error.hpp"
#include "core/schema/config_keys.hpp"
#include "traces/clusters/cluster_readers.hpp"

namespace orrery {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

std::optional<ClusterFormat> cluster_format(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return std::nullopt;
  if (text[begin] == '<') {
    const bool is_nccl = contains(text, "<system") && contains(text, "<pci");
    if (is_nccl) return ClusterFormat::nccl;
    if (contains(text, "<platform")) return ClusterFormat::simgrid;
    const bool is_hwloc = contains(text, "<topology") && contains(text, "<object");
    return is_hwloc ? std::optional(ClusterFormat::hwloc) : std::nullopt;
  }
  if (contains(text, "GPU0") && contains(text, " X ")) return ClusterFormat::nvidia_smi;
  if (contains(text, "SwitchName=") || contains(text, "BlockName=")) {
    return ClusterFormat::slurm_conf;
  }
  if (contains(text, "topology:") && (contains(text, "switches:") || contains(text, "blocks:"))) {
    return ClusterFormat::slurm_yaml;
  }
  if (contains(text, "switchguid=") || contains(text, "\nSwitch\t")) {
    return ClusterFormat::ibnetdiscover;
  }
  return std::nullopt;
}

ClusterFacts parse_cluster_file(std::string_view text, const std::string& file) {
  const ConfigText source{text, file};
  const std::optional<ClusterFormat> format = cluster_format(text);
  if (!format) {
    source.throw_error(
        1, 1,
        "expected a cluster of another tool: a topology of NCCL or hwloc or a platform of "
        "SimGrid (XML), the output of nvidia-smi topo -m or ibnetdiscover, or Slurm's "
        "topology.conf or topology.yaml");
  }
  switch (*format) {
    case ClusterFormat::nccl: return read_nccl_topology(source);
    case ClusterFormat::nvidia_smi: return read_smi_topology(source);
    case ClusterFormat::slurm_conf: return read_slurm_conf(source);
    case ClusterFormat::slurm_yaml: return read_slurm_yaml(source);
    case ClusterFormat::hwloc: return read_hwloc_topology(source);
    case ClusterFormat::simgrid: return read_simgrid_platform(source);
    case ClusterFormat::ibnetdiscover: return read_ibnetdiscover(source);
  }
  return {};
}

}  // namespace orrery
