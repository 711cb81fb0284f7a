#include "sim/training/job_fit.hpp"

#include <string>

#include <fmt/format.h>

#include "core/error.hpp"
#include "policies/seam/fabric_rules.hpp"
#include "traces/workload/job_choices.hpp"

namespace orrery::sim {
namespace {

constexpr double kGiB = 1ull << 30;

/// Returns one line for each use of memory that is not zero.
std::string breakdown(const MemoryUse& use) {
  std::string text;
  const auto line = [&](const char* name, Bytes bytes) {
    if (bytes.value > 0) {
      text += fmt::format("{}  {:<12} {:8.1f} GiB", text.empty() ? "" : "\n", name,
                          bytes.value / kGiB);
    }
  };
  line("parameters", use.parameters);
  line("gradients", use.gradients);
  line("optimizer", use.optimizer);
  line("activations", use.activations);
  line("logits", use.logits);
  line("gathered", use.gathered);
  line("buffers", use.buffers);
  line("update", use.update);
  line("reserved", use.reserved);
  return text;
}

}  // namespace

std::vector<GpuId> place_in_order(const StepGraph& graph, const Cluster& cluster,
                                  std::uint32_t first) {
  if (std::uint64_t{first} + graph.ranks() > cluster.gpus()) {
    throw Error(ErrorKind::bad_input,
                first == 0
                    ? fmt::format("job.layout: expected a cluster with at least {} GPUs, found {}; "
                                  "choose a smaller layout or a larger cluster",
                                  graph.ranks(), cluster.gpus())
                    : fmt::format("job.layout: expected {} GPUs from GPU {} on, found a cluster "
                                  "with {} GPUs; choose a smaller layout, a lower first_gpu or a "
                                  "larger cluster", graph.ranks(), first, cluster.gpus()));
  }
  std::vector<GpuId> gpus(graph.ranks());
  for (std::uint32_t rank = 0; rank < gpus.size(); ++rank) gpus[rank] = {first + rank};
  return gpus;
}

std::string memory_lack(const StepGraph& graph, const Cluster& cluster) {
  const double room = cluster.gpu_model().memory.value;
  const std::uint32_t share = (graph.micro_batches() + graph.data() - 1) / graph.data();
  for (std::uint32_t stage = 0; stage < graph.pipeline(); ++stage) {
    const MemoryUse use = graph.memory(stage, share);
    if (use.total().value <= room) continue;
    return fmt::format("job.layout: out of memory: stage {} needs {:.1f} GiB per GPU, {} has "
                       "{:.1f} GiB\n{}",
                       stage, use.total().value / kGiB, cluster.gpu_model().name, room / kGiB,
                       breakdown(use));
  }
  return "";
}

std::string layout_refusal(const Scenario& scenario, const Cluster& cluster,
                           const ParallelLayout& layout) {
  if (layout.has_replicas_of(layout_of(scenario.job().layout()))) return {};
  if (memory_shortage_of(scenario.run()) != MemoryShortage::refuse) return {};
  const StepGraph graph(with_layout(scenario.job(), layout), /*even_shares=*/false);
  const std::string lack = memory_lack(graph, cluster);
  return lack.substr(0, lack.find('\n'));
}

void check_memory(const StepGraph& graph, const Cluster& cluster) {
  const std::string lack = memory_lack(graph, cluster);
  if (lack.empty()) return;
  throw Error(ErrorKind::bad_input, lack + "\n  choose another layout, or set run.memory: warn to "
                                           "simulate the job without this check");
}

}  // namespace orrery::sim
