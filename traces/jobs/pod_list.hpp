// Pods that request parts of GPUs, or certain models of GPUs, and the nodes of a cluster with many
// models: the two tables of Alibaba's openb trace (2023). Called by `orrery pack`. Thread-safe.
// Units: thousandths of a CPU and of a GPU, and MiB.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// Thousandths of a whole GPU.
inline constexpr std::uint32_t kWholeGpu = 1000;

/// Request of one pod.
struct Pod {
  std::string name;
  std::int64_t cpu_milli = 0, memory_mib = 0;
  std::uint32_t gpus = 0;                ///< 0: none
  std::uint32_t gpu_milli = 0;           ///< share of each GPU; below kWholeGpu only with one GPU
  std::vector<std::string> models = {};  ///< accepted models, ascending; empty: any

  /// Returns the requested thousandths of all GPUs together; 0 without GPUs.
  std::uint64_t all_gpu_milli() const { return std::uint64_t{gpus} * gpu_milli; }
};

/// Resources of one node.
struct NodeRecord {
  std::string name;
  std::int64_t cpu_milli = 0, memory_mib = 0;
  std::uint32_t gpus = 0;
  std::string model = {};
};

/// Returns the pods of a CSV, gzip too, with name, cpu_milli, memory_mib, num_gpu, gpu_milli and
/// optionally gpu_spec ("V100M16|V100M32"), in file order. Throws bad_input with file:line:column,
/// also if no pod requests a GPU.
std::vector<Pod> load_pods(const std::string& path);
/// Returns the pods of a text; `path` is for messages. Throws as load_pods() does.
std::vector<Pod> parse_pods(const std::string& path, std::string_view text);
/// Returns the nodes of a CSV, gzip too, with sn, cpu_milli, memory_mib, gpu, model, sorted by
/// name. Throws bad_input with file:line:column, also if no node has GPUs.
std::vector<NodeRecord> load_nodes(const std::string& path);
/// Returns the nodes of a text; `path` is for messages. Throws as load_nodes() does.
std::vector<NodeRecord> parse_nodes(const std::string& path, std::string_view text);

}  // namespace orrery
