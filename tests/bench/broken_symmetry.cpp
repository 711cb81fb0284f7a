// The price of broken symmetry: CPU and memory of one step of a 4,096-GPU run in which 0, 1, 10,
// 100 or all ranks differ from the others, and with skewed routing of experts; and of one step of
// 24,000 operations without contention. A process per row. Prints a table; ./dev bench symmetry.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "policies/parameters.pb.h"
#include "sim/engine/simgrid_engine.hpp"
#include "sim/estimates/engine/free_engine.hpp"
#include "sim/estimates/step/stepper.hpp"
#include "topologies/builder.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery {
namespace {

constexpr const char* kDense =
    "  model: {layers: 64, hidden: 8192, heads: 64, kv_heads: 8, feed_forward: 28672, "
    "vocabulary: 128000}\n"
    "  layout: {tensor: 8, pipeline: 8, data: 64}\n";
constexpr const char* kExperts =
    "  model: {layers: 64, hidden: 4096, heads: 64, kv_heads: 8, feed_forward: 14336, "
    "vocabulary: 128000, experts: {count: 64, top_k: 2, skew: 1.5}}\n"
    "  layout: {tensor: 4, pipeline: 8, data: 128, expert: 8}\n";

constexpr const char* kSharded =
    "  model: {layers: 64, hidden: 8192, heads: 64, kv_heads: 8, feed_forward: 28672, "
    "vocabulary: 128000}\n"
    "  layout: {tensor: 8, data: 512, shard: parameters}\n";

std::string scenario_text(const char* job, int sequences) {
  return fmt::format(R"(
name: symmetry
cluster:
  nodes: 512
  node: {{gpu: H100, gpus_per_node: 8, nics_per_node: 8, nic_bandwidth: 400 Gbps}}
  fabric: {{nodes_per_unit: 32, spines: 32, spine_link_bandwidth: 400 Gbps}}
job:
{}  sequence_length: 4096
  global_batch: {}
run: {{steps: 1}}
)", job, sequences);
}

struct Row {
  std::string name;
  const char* job = kDense;
  std::uint32_t different = 0;  ///< ranks, each slow by a factor of its own
  bool shares = true;           ///< true: on SimGrid; else the free engine
  int sequences = 2048;
};

/// Runs in a process of its own and prints a line.
void run(const Row& row) {
  const LoadedScenario loaded =
      parse_scenario(scenario_text(row.job, row.sequences), "symmetry.yaml", {});
  const Cluster cluster = build_cluster(loaded.scenario.cluster(), loaded.places);
  StepGraph graph(loaded.scenario.job());
  std::vector<GpuId> placement(graph.ranks());
  for (std::uint32_t i = 0; i < placement.size(); ++i) placement[i] = {i};
  estimates::HardwareState state;
  for (std::uint32_t i = 0; i < row.different; ++i) {
    state.slow[i * (graph.ranks() / row.different)] = 1.01 + 1e-5 * i;
  }
  const std::vector<std::uint32_t> shares(graph.data(), graph.micro_batches() / graph.data());
  estimates::Stepper stepper(cluster, graph, placement, {},
                             row.shares ? sim::simgrid_engine : estimates::free_engine);
  const auto step = stepper.step(state, shares);
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const double cpu = static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                     1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  std::printf("%-36s %8zu %9llu %9.3f %8.0f %10.6f\n", row.name.c_str(), step->plan.classes.size(),
              static_cast<unsigned long long>(step->run.events), cpu,
              static_cast<double>(used.ru_maxrss) / 1024, step->run.duration);
}

void in_child(const Row& row) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    run(row);
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
}

}  // namespace
}  // namespace orrery

int main() {
  using namespace orrery;
  PredictiveRebalanceParameters::descriptor();  // links the policies' parameters in
  std::printf("%-36s %8s %9s %9s %8s %10s\n", "one step of 4,096 GPUs", "classes", "ops", "CPU s",
              "MiB", "step s");
  const std::vector<Row> rows{
      {"none different"},
      {.name = "1 rank different", .different = 1},
      {.name = "10 ranks different", .different = 10},
      {.name = "100 ranks different", .different = 100},
      {.name = "all 4,096 ranks different", .different = 4096},
      {.name = "sharded parameters, none different", .job = kSharded},
      {.name = "sharded parameters, all different", .job = kSharded, .different = 4096},
      {.name = "experts, skewed routing", .job = kExperts},
      {.name = "experts, 10 ranks different", .job = kExperts, .different = 10},
      {.name = "without contention, 24,000 ops", .shares = false, .sequences = 64 * 512},
      {.name = "without contention, none different", .shares = false},
  };
  for (const Row& row : rows) in_child(row);
}
