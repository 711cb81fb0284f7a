// orrery-sim: serves one simulated run to the process that started it; as a fork server, one in
// every fork.
#include <string>
#include <string_view>

#include "core/process.hpp"
#include "policies/run/registry.hpp"
#include "policies/run/worker.hpp"
#include "sim/estimates/predict/estimate.hpp"
#include "sim/worlds.hpp"
#include "topologies/builder.hpp"
#include "traces/report/report.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery::sim {
namespace {

constexpr std::string_view kSmallScenario = R"(
name: small
cluster: {preset: dgx-h100, nodes: 1}
job:
  model: {preset: llama3-8b}
  sequence_length: 128
  global_batch: 8
  layout: {data: 8}
  stack: nemo
run: {steps: 1}
)";

/// Work that every run would otherwise do first: reading catalogues, building descriptors of
/// messages, resolving names. Each run has an engine of its own.
void warm_up() {
  const Scenario scenario = parse_scenario(kSmallScenario, "small.yaml", {}).scenario;
  estimates::estimate_step(scenario.job(), build_cluster(scenario.cluster(), SourceMap{}));
  for (const std::string& name : policy_names()) make_policy(name, SourcePlace{});
  scenario_hash(scenario);
  RunRequest::descriptor();  // registers the messages in it
}

}  // namespace
}  // namespace orrery::sim

int main(int argc, char** argv) {
  const bool forked = argc > 1 && std::string_view(argv[1]) == orrery::kForkServerArgument;
  if (forked) {
    orrery::sim::warm_up();
    orrery::serve_forks();
  }
  return orrery::serve_run(std::string(name_of(orrery::ReportWorld::sim)),
                           orrery::sim::simulated_world, forked);
}
