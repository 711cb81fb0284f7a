// Pods that ask for parts of GPUs, or for some kinds of them, and the nodes of a cluster of many
// kinds: the two tables of Alibaba's openb trace (2023). Called by `orrery pack`. Thread-safe.
// Thousandths of a CPU and of a GPU, MiB.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

inline constexpr std::uint32_t kWholeGpu = 1000;

struct Pod {
  std::string name;
  std::int64_t cpu_milli = 0, memory_mib = 0;
  std::uint32_t gpus = 0;                ///< 0: it needs none
  std::uint32_t gpu_milli = 0;           ///< of each; below kWholeGpu only of one
  std::vector<std::string> models = {};  ///< of GPUs that it may have; none: any

  std::uint64_t all_gpu_milli() const { return std::uint64_t{gpus} * gpu_milli; }
};

struct NodeRecord {
  std::string name;
  std::int64_t cpu_milli = 0, memory_mib = 0;
  std::uint32_t gpus = 0;
  std::string model = {};
};

/// CSV, gzip too, with name, cpu_milli, memory_mib, num_gpu, gpu_milli and perhaps gpu_spec
/// ("V100M16|V100M32"). In file order. Throws bad_input with file:line:column.
std::vector<Pod> load_pods(const std::string& path);
std::vector<Pod> parse_pods(const std::string& path, std::string_view text);
/// CSV, gzip too, with sn, cpu_milli, memory_mib, gpu, model. By name.
std::vector<NodeRecord> load_nodes(const std::string& path);
std::vector<NodeRecord> parse_nodes(const std::string& path, std::string_view text);

}  // namespace orrery
