// Cost of a change: CPU of the first step of a large job, of a step with one more straggler, of one
// cut short by a kill, and of the first without a lost replica, each the mean of many, at other
// places of the cluster each time; and of one step in full detail. A process per row. Prints a
// table; ./dev bench steps.
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
#include "sim/estimates/step/stepper.hpp"
#include "topologies/builder.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery {
namespace {

/// The main example with `data` replicas of 32 GPUs.
std::string scenario_text(std::uint32_t data) {
  return fmt::format(R"(
name: steps
cluster: {{preset: dgx-h100, nodes: {}}}
job:
  model: {{preset: llama3-70b}}
  sequence_length: 8192
  global_batch: {}
  layout: {{tensor: 8, pipeline: 4, data: {}, sequence_parallel: true}}
  bucket: 512 MiB
  stack: nemo
run: {{steps: 1}}
)", 4 * data, 16 * data, data);
}

double cpu_s() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

struct Bench {
  explicit Bench(std::uint32_t data, bool full_detail = false)
      : loaded(parse_scenario(scenario_text(data), "steps.yaml", {})),
        cluster(build_cluster(loaded.scenario.cluster(), loaded.places)),
        graph(loaded.scenario.job()),
        placement(graph.ranks()),
        even(data, 16),
        stepper(cluster, graph, placed(), {.full_detail = full_detail}, sim::simgrid_engine) {}
  const std::vector<GpuId>& placed() {
    for (std::uint32_t i = 0; i < placement.size(); ++i) placement[i] = {i};
    return placement;
  }

  LoadedScenario loaded;
  Cluster cluster;
  StepGraph graph;
  std::vector<GpuId> placement;
  std::vector<std::uint32_t> even;
  estimates::Stepper stepper;
};

constexpr int kTimes = 20;

struct Row {
  const char* name;
  bool full_detail;
  std::function<void(Bench&, std::uint32_t)> once;  ///< the n-th of kTimes; null: the first step
};

/// The rank that something happens to, another one each time.
std::uint32_t victim(const Bench& bench, std::uint32_t n) {
  return static_cast<std::uint32_t>((n + 1) * 7919ull * 32 + n) % bench.graph.ranks();
}

void straggle(Bench& bench, std::uint32_t n) {
  estimates::HardwareState state;
  state.slow[victim(bench, n)] = 1.5;
  bench.stepper.step(state, bench.even);
}

void cut_short(Bench& bench, std::uint32_t n) {
  bench.stepper.step_with({}, bench.even, {{.at = 1.0 + n, .state = {}, .fatal = true}});
}

/// Its micro-batches go to sixteen others.
void lose(Bench& bench, std::uint32_t n) {
  std::vector<std::uint32_t> shares = bench.even;
  const std::uint32_t lost = bench.graph.position({victim(bench, n)}).replica;
  for (std::uint32_t i = 1; i <= 16; ++i) ++shares[(lost + i) % shares.size()];
  shares[lost] = 0;
  bench.stepper.step({}, shares);
}

void run(const Row& row, std::uint32_t ranks) {
  Bench bench(ranks / 32, row.full_detail);
  double before = cpu_s();
  bench.stepper.step({}, bench.even);
  double cost = cpu_s() - before;
  if (row.once) {
    before = cpu_s();
    for (std::uint32_t n = 0; n < kTimes; ++n) row.once(bench, n);
    cost = (cpu_s() - before) / kTimes;
  }
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  std::printf("%8u %-28s %10.2f %8.0f\n", ranks, row.name, 1e3 * cost,
              static_cast<double>(used.ru_maxrss) / 1024);
}

void in_child(const Row& row, std::uint32_t ranks) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    run(row, ranks);
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
  std::printf("%8s %-28s %10s %8s\n", "GPUs", "a step", "CPU ms", "MiB");
  for (const std::uint32_t ranks : {512u, 16'384u, 131'072u}) {
    in_child({"the first one", false, nullptr}, ranks);
    in_child({"with another straggler", false, straggle}, ranks);
    in_child({"cut short by a kill", false, cut_short}, ranks);
    in_child({"without another replica", false, lose}, ranks);
  }
  for (const std::uint32_t ranks : {512u, 2'048u, 8'192u, 32'768u}) {
    in_child({"in full detail", true, nullptr}, ranks);
  }
}
