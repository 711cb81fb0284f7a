// The price of broken symmetry: CPU and memory of one step of a 4,096-GPU run in which 0, 1, 10,
// 100 or all ranks differ from the others, and with skewed routing of experts; of one step of
// 24,000 operations without contention; and of steps of up to 262,144 GPUs in which all ranks
// differ, which have goals: 0.5 s of CPU at 16,384 GPUs, and no worse growth than n log n, from
// that goal and from the first row; the least of ten processes counts there. A process per row.
// Prints a table and exits 1 if a goal is missed; ./dev bench symmetry.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "policies/parameters.pb.h"
#include "sim/engine/step_engine.hpp"
#include "sim/estimates/engine/free_engine.hpp"
#include "sim/estimates/step/stepper.hpp"
#include "topologies/builder.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery {
namespace {

/// Model and layout of a job; the rest of its ranks are replicas.
struct Described {
  const char* model;
  const char* layout;
  std::uint32_t ranks_of_replica;
};

constexpr Described kDense{
    "{layers: 64, hidden: 8192, heads: 64, kv_heads: 8, feed_forward: 28672, vocabulary: 128000}",
    "tensor: 8, pipeline: 8", 64};
constexpr Described kSharded{kDense.model, "tensor: 8, shard: parameters", 8};
constexpr Described kExperts{
    "{layers: 64, hidden: 4096, heads: 64, kv_heads: 8, feed_forward: 14336, vocabulary: 128000, "
    "experts: {count: 64, top_k: 2, skew: 1.5}}",
    "tensor: 4, pipeline: 8, expert: 8", 32};
constexpr Described kReplicas{
    "{layers: 8, hidden: 2048, heads: 16, kv_heads: 16, feed_forward: 8192, vocabulary: 32000}",
    "tensor: 1", 1};

struct Row {
  std::string name;
  Described job = kDense;
  std::uint32_t different = 0;  ///< ranks, each slow by a factor of its own
  bool shares = true;           ///< true: on SimGrid; else the free engine
  std::uint32_t sequences = 2048;
  std::uint32_t ranks = 4096;
};

std::string scenario_text(const Row& row) {
  return fmt::format(R"(
name: symmetry
cluster:
  nodes: {}
  node: {{gpu: H100, gpus_per_node: 8, nics_per_node: 8, nic_bandwidth: 400 Gbps}}
  fabric: {{nodes_per_unit: 32, spines: 32, spine_link_bandwidth: 400 Gbps}}
job:
  model: {}
  layout: {{{}, data: {}}}
  sequence_length: 4096
  global_batch: {}
run: {{steps: 1}}
)", row.ranks / 8, row.job.model, row.job.layout, row.ranks / row.job.ranks_of_replica,
                     row.sequences);
}

/// Runs in a process of its own and prints a line.
void run(const Row& row) {
  const LoadedScenario loaded = parse_scenario(scenario_text(row), "symmetry.yaml", {});
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
                             row.shares ? sim::step_engine : estimates::free_engine);
  const auto step = stepper.step(state, shares);
  std::printf("%-36s %8zu %9llu %10.6f", row.name.c_str(), step->plan.classes.size(),
              static_cast<unsigned long long>(step->run.events), step->run.duration);
}

/// Returns the CPU seconds of a row in a process of its own, and prints its line if `prints`.
double in_child(const Row& row, bool prints = true) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    if (!prints) std::freopen("/dev/null", "w", stdout);
    run(row);
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  rusage used{};
  wait4(child, &status, 0, &used);
  const double cpu = static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                     1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  if (prints) std::printf(" %9.3f %8.0f\n", cpu, static_cast<double>(used.ru_maxrss) / 1024);
  return status == 0 ? cpu : INFINITY;
}

/// Steps of 16,384 to 262,144 GPUs that all differ. Returns the number of goals missed: 0.5 s at
/// 16,384 GPUs, and at each larger size no more than n log n of that and of the first row. Prints
/// the goals, how the CPU has grown from the first row, and n log n. The CPU of a row is the least
/// of ten processes, as others of the machine use its caches and memory, too; the rows take turns,
/// because these others come and go.
int all_different(const char* name, const Described& job,
                  const std::vector<std::uint32_t>& sizes) {
  constexpr int kRounds = 10;
  constexpr double kMostSeconds = 0.5, kFewest = 16'384;
  std::vector<double> least(sizes.size(), INFINITY);
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const Row row{.name = fmt::format("{}, {} different", name, sizes[i]),
                    .job = job,
                    .different = sizes[i],
                    .sequences = sizes[i] / std::min(4u, job.ranks_of_replica),
                    .ranks = sizes[i]};
      least[i] = std::min(least[i], in_child(row, round == 0));
    }
  }
  int missed = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const double n = sizes[i] / kFewest;
    const double growth = n * (1 + std::log2(n) / std::log2(kFewest));  // n log n
    std::printf("  %u: least CPU %.3f s, goal %.2f s; CPU x %.1f, n log n x %.1f\n", sizes[i],
                least[i], kMostSeconds * growth, least[i] / least[0], growth);
    if (least[i] > kMostSeconds * growth || least[i] > least[0] * growth) ++missed;
  }
  return missed;
}

}  // namespace
}  // namespace orrery

int main() {
  using namespace orrery;
  PredictiveRebalanceParameters::descriptor();  // links the policies' parameters in
  std::printf("%-36s %8s %9s %10s %9s %8s\n", "one step of 4,096 GPUs", "classes", "ops", "step s",
              "CPU s", "MiB");
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
  const int missed =
      all_different("8 x 8 ranks a replica", kDense, {16'384, 65'536, 262'144}) +
      all_different("replicas", kReplicas, {16'384, 65'536, 131'072});
  return missed > 0 ? 1 : 0;
}
