#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/yaml_tree.hpp"
#include "topologies/builder.hpp"
#include "topologies/catalog.hpp"
#include "traces/published/published_model.hpp"
#include "traces/workload/framework.hpp"

namespace orrery {
namespace {

/// Rates of a NIC or of all NICs of a node.
constexpr double kLeastGbps = 1, kMostGbps = 100'000;
constexpr double kGbps = 1.25e8, kGiB = 1024.0 * 1024.0 * 1024.0;
/// Latency from NIC to NIC of Amazon's EFA in seconds (docs/accuracy.md, collectives).
constexpr double kEfaLatency = 49e-6;
/// Jobs above one NVL72 take 16 of its 18 nodes, so that powers of two fit.
constexpr std::uint32_t kNvl72Nodes = 18, kNvl72UsedNodes = 16;

/// GPU name in tables (its beginning, and a part) and in the catalogue. The first match counts.
struct NamedGpu {
  std::string_view begins, contains, name;
};
constexpr std::array kGpus = {
    NamedGpu{"a100", "40gb", "A100-40GB"}, NamedGpu{"a100", "", "A100-80GB"},
    NamedGpu{"a800", "", "A800"},          NamedGpu{"h100", "96gb", "H100-96GB-HBM2e-500W"},
    NamedGpu{"h100", "", "H100"},          NamedGpu{"h800", "", "H800"},
    NamedGpu{"h200", "", "H200"},          NamedGpu{"gb200", "", "GB200"},
    NamedGpu{"gb300", "", "GB300"},        NamedGpu{"b200", "", "B200"},
    NamedGpu{"b300", "", "B300"},          NamedGpu{"mi300x", "", "MI300X"},
    NamedGpu{"mi325x", "", "MI325X"},      NamedGpu{"mi350x", "", "MI350X"},
    NamedGpu{"mi355x", "", "MI355X"},      NamedGpu{"v100", "16gb", "V100-16GB"},
    NamedGpu{"v100", "", "V100-32GB"},     NamedGpu{"tpu", "v5e", "TPU-v5e"},
    NamedGpu{"tpu", "v5p", "TPU-v5p"},     NamedGpu{"tpu", "v6e", "TPU-v6e"},
    NamedGpu{"tpu", "7x", "TPU-7x"},
};
/// Chips of one TPU slice, whose interconnect is its NVLink domain; the schema allows 1,024 nodes.
constexpr std::uint32_t kSmallSlice = 256, kLargeSlice = 4096;

std::string catalogue_name(const TableRow& row) {
  if (const std::optional<std::string> name = catalogue_gpu(row.gpu)) return *name;
  throw Refusal{row.gpu.empty()
                    ? "'gpu' is missing"
                    : fmt::format("no GPU of the catalogue is named like '{}'", shown(row.gpu))};
}

/// Returns the number at the beginning of a text; nothing if the text begins with another
/// character.
std::optional<double> leading_number(std::string_view text) {
  double value = 0;
  std::size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9' && digits < 8) {
    value = 10 * value + (text[digits++] - '0');
  }
  if (digits == 0) return std::nullopt;
  return value;
}

/// Returns the bytes per second of one direction of a table's NVLink. For example, "NVLink4 900GB/s
/// bidir" gives 450e9.
std::optional<double> nvlink_rate(std::string_view text) {
  const std::size_t unit = text.find("GB/s");
  if (unit == std::string_view::npos) return std::nullopt;
  std::size_t begin = unit;
  while (begin > 0 && text[begin - 1] >= '0' && text[begin - 1] <= '9') --begin;
  const std::optional<double> both = leading_number(text.substr(begin));
  if (!both) return std::nullopt;
  return *both / 2 * 1e9;
}

/// Returns the bytes of a table's memory if it differs from the catalogue's GPU: tables round to
/// the data sheet's number, so any close value is the same GPU.
std::optional<double> other_memory(const TableRow& row, const GpuSpec& known) {
  if (!row.gpu_mem_gb) return std::nullopt;
  const double bytes = *row.gpu_mem_gb * kGiB;
  if (bytes > 0.85 * known.memory() && bytes < 1.15 * known.memory()) return std::nullopt;
  return bytes;
}

/// Defines a GPU of its own, of the same family, if the table's NVLink (H800) or memory differs
/// from the catalogue's.
void take_gpu(const TableRow& row, const std::string& name, Topology& cluster,
              std::vector<std::string>& assumed) {
  cluster.mutable_node()->set_gpu(name);
  for (const GpuSpec& known : gpu_catalog().gpus()) {
    if (known.name() != name) continue;
    GpuSpec own = known;
    const std::optional<double> rate = nvlink_rate(row.nvlink), memory = other_memory(row, known);
    if (rate && std::abs(*rate / known.nvlink() - 1) >= 0.05) {
      own.set_name(fmt::format("{}-nvlink-{}", own.name(), *rate / 1e9));
      own.set_nvlink(*rate);
    }
    if (memory) {
      own.set_name(fmt::format("{}-{}GB", own.name(), *row.gpu_mem_gb));
      own.set_memory(*memory);
      assumed.push_back(fmt::format("{} with {} GiB of memory", name, *row.gpu_mem_gb));
    }
    if (own.name() == name) return;
    cluster.mutable_node()->set_gpu(own.name());
    *cluster.add_gpus() = own;
    return;
  }
}

/// Returns the Gbit/s that a table states, with or without words behind the number; nothing for a
/// text that does not begin with a number. Throws Refusal if no NIC has such a rate.
std::optional<double> nic_rate(const std::string& text) {
  const char* const end = text.data() + text.size();
  double rate = 0;
  if (text.empty() || std::string_view("0123456789.-").find(text[0]) == std::string_view::npos ||
      std::from_chars(text.data(), end, rate).ec == std::errc::invalid_argument) {
    return std::nullopt;
  }
  if (rate >= kLeastGbps && rate <= kMostGbps) return rate;
  throw Refusal{
      fmt::format("nic_gbps is '{}', no rate from {} to {} Gbit/s: leave the cell empty "
                  "if the rate is not known",
                  shown(text), kLeastGbps, kMostGbps)};
}

/// Returns the Gbit/s of one NIC of a vendor's reference node, one NIC for each GPU; of TPUs the
/// data-center network's share of a chip.
double usual_nic_rate(const std::string& gpu) {
  if (gpu.starts_with("TPU")) return 25;
  if (gpu.starts_with("V100")) return 100;
  if (gpu.starts_with("A100")) return 200;
  return gpu == "B300" || gpu == "GB300" ? 800 : 400;
}

/// Reads the NICs and their rate; missing values are those of the vendor's reference node.
void take_nics(const TableRow& row, const std::string& gpu, NodeSpec& node,
               std::vector<std::string>& assumed) {
  const std::optional<double> stated = nic_rate(row.nic_gbps);
  const double usual = usual_nic_rate(gpu);
  double gbps = stated.value_or(usual);
  std::uint32_t nics = row.nics_per_node.value_or(node.gpus_per_node());
  if (!stated) {
    assumed.push_back(fmt::format("NICs {} x {} Gbps", nics, gbps));
  } else if (!row.nics_per_node) {
    nics = std::min(4u, node.gpus_per_node());  // the rate is the node's
    gbps = *stated / nics;
    assumed.push_back(fmt::format("NICs {} x {} Gbps, {} in all", nics, gbps, *stated));
  }
  node.set_nics_per_node(nics);
  node.set_nic_bandwidth(gbps * kGbps);
}

/// NVIDIA's reference designs are rail-optimised fat-trees; everything else is taken as a network
/// that does not block.
void take_fabric(const TableRow& row, const std::string& gpu, Topology& cluster,
                 std::vector<std::string>& assumed) {
  const std::string fabric = lower_case(row.fabric);
  FabricSpec& spec = *cluster.mutable_fabric();
  spec.set_kind("flat");
  if (fabric.find("efa") != std::string::npos) spec.set_nic_latency(kEfaLatency);
  if (fabric.empty()) {
    if (cluster.nodes() > 1) assumed.push_back("a fabric that does not block");
    return;
  }
  bool reference = false;
  for (const char* word : {"infiniband", "dgx", "nvl72", "superpod"}) {
    reference = reference || fabric.find(word) != std::string::npos;
  }
  if (!reference) return;
  for (const TopologyPreset& preset : preset_catalog().presets()) {
    if (preset.node().gpu() != gpu || preset.fabric().nodes_per_unit() == 0) continue;
    spec = preset.fabric();
    spec.set_spine_link_bandwidth(cluster.node().nic_bandwidth());
    return;
  }
}

bool has_domain(const TableRow& row) {
  return lower_case(row.nvlink).find("nvl72") != std::string::npos;
}

/// Sets the nodes that share an NVLink domain: a rack of Grace GPUs, a slice of TPUs.
void take_domain(const TableRow& row, const std::string& gpu, Topology& cluster) {
  NodeSpec& node = *cluster.mutable_node();
  if (gpu.starts_with("TPU")) {
    const bool small = gpu == "TPU-v5e" || gpu == "TPU-v6e";
    const std::uint32_t most = (small ? kSmallSlice : kLargeSlice) / node.gpus_per_node();
    node.set_nvlink_domain(std::clamp(cluster.nodes(), 1u, std::max(1u, most)));
  } else if (gpu.starts_with("GB") || has_domain(row)) {
    node.set_nvlink_domain(cluster.nodes() <= kNvl72Nodes ? kNvl72Nodes : kNvl72UsedNodes);
  }
}

}  // namespace

std::optional<std::string> catalogue_gpu(std::string_view named) {
  const std::string lower = lower_case(std::string(named));
  for (const NamedGpu& each : kGpus) {
    if (lower.starts_with(each.begins) && lower.find(each.contains) != std::string::npos) {
      return std::string(each.name);
    }
  }
  return std::nullopt;
}

Topology published_cluster(const TableRow& row, std::vector<std::string>& assumed) {
  Topology cluster;
  const std::string gpu = catalogue_name(row);
  const bool four = gpu.starts_with("GB") || gpu.starts_with("TPU");
  NodeSpec& node = *cluster.mutable_node();
  if (!row.n_gpus) throw Refusal{"'n_gpus' is missing"};
  if (!row.gpus_per_node) assumed.push_back(fmt::format("{} GPUs a node", four ? 4 : 8));
  node.set_gpus_per_node(row.gpus_per_node.value_or(four ? 4 : 8));
  cluster.set_nodes((*row.n_gpus + node.gpus_per_node() - 1) / node.gpus_per_node());
  take_gpu(row, gpu, cluster, assumed);
  take_nics(row, gpu, node, assumed);
  take_fabric(row, gpu, cluster, assumed);
  take_domain(row, gpu, cluster);
  try {
    resolve(cluster, {}, "cluster");
  } catch (const Error& error) {
    throw Refusal{error.message()};
  }
  return cluster;
}

}  // namespace orrery
