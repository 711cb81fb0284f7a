#include "traces/jobs/pod_list.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/error.hpp"
#include "traces/files/csv_table.hpp"

namespace orrery {
namespace {

constexpr std::uint64_t kMostMilli = 1'000'000'000, kMostMemory_mib = 1'000'000'000;
constexpr std::uint64_t kMostGpus = 128;  // limit of one node

std::vector<std::string> models_of(std::string_view spec) {
  std::vector<std::string> models;
  while (!spec.empty()) {
    const std::size_t end = std::min(spec.find('|'), spec.size());
    if (end > 0) models.emplace_back(spec.substr(0, end));
    spec.remove_prefix(std::min(end + 1, spec.size()));
  }
  std::sort(models.begin(), models.end());
  return models;
}

Pod read_pod(const CsvTable& table) {
  Pod pod{.name = std::string(table.text("name"))};
  pod.cpu_milli = static_cast<std::int64_t>(table.number("cpu_milli", kMostMilli));
  pod.memory_mib = static_cast<std::int64_t>(table.number("memory_mib", kMostMemory_mib));
  pod.gpus = static_cast<std::uint32_t>(table.number("num_gpu", kMostGpus));
  pod.models = models_of(table.text("gpu_spec"));
  if (pod.gpus == 0) return pod;
  pod.gpu_milli = static_cast<std::uint32_t>(table.number("gpu_milli", kWholeGpu));
  if (pod.gpu_milli == 0) table.fail_at("gpu_milli", "a pod with GPUs must have 1 to 1000, not 0");
  if (pod.gpus > 1 && pod.gpu_milli < kWholeGpu) {
    table.fail_at("gpu_milli", fmt::format("a pod of {} GPUs must have whole GPUs ({}), not {}",
                                           pod.gpus, kWholeGpu, pod.gpu_milli));
  }
  return pod;
}

}  // namespace

std::vector<Pod> parse_pods(const std::string& path, std::string_view text) {
  CsvTable table(path, text, "pods", {"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"});
  std::vector<Pod> pods;
  while (table.next()) pods.push_back(read_pod(table));
  const bool any = std::any_of(pods.begin(), pods.end(), [](const Pod& p) { return p.gpus > 0; });
  if (any) return pods;
  throw Error(SourcePlace{.file = path, .line_text = ""}, "holds no pod that needs GPUs");
}

std::vector<NodeRecord> parse_nodes(const std::string& path, std::string_view text) {
  CsvTable table(path, text, "nodes", {"sn", "cpu_milli", "memory_mib", "gpu", "model"});
  std::vector<NodeRecord> nodes;
  while (table.next()) {
    nodes.push_back(
        {.name = std::string(table.text("sn")),
         .cpu_milli = static_cast<std::int64_t>(table.number("cpu_milli", kMostMilli)),
         .memory_mib = static_cast<std::int64_t>(table.number("memory_mib", kMostMemory_mib)),
         .gpus = static_cast<std::uint32_t>(table.number("gpu", kMostGpus)),
         .model = std::string(table.text("model"))});
  }
  std::stable_sort(nodes.begin(), nodes.end(),
                   [](const NodeRecord& a, const NodeRecord& b) { return a.name < b.name; });
  const bool any =
      std::any_of(nodes.begin(), nodes.end(), [](const NodeRecord& node) { return node.gpus > 0; });
  if (any) return nodes;
  throw Error(SourcePlace{.file = path, .line_text = ""}, "holds no node with GPUs");
}

std::vector<Pod> load_pods(const std::string& path) {
  return parse_pods(path, read_packed_text(path));
}

std::vector<NodeRecord> load_nodes(const std::string& path) {
  return parse_nodes(path, read_packed_text(path));
}

}  // namespace orrery
