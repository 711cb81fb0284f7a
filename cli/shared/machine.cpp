#include "cli/shared/machine.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/shared/run_options.hpp"
#include "core/error.hpp"
#include "core/process.hpp"
#include "sim/estimates/prices/machine_fit.hpp"
#include "topologies/machine.hpp"
#include "traces/scenario/scenario.hpp"
#include "traces/workload/model.hpp"

namespace orrery::cli {
namespace {

/// Scenario that measures the time of a step beside computation, with real processes that compute
/// little.
constexpr const char* kProbe = R"(
name: probe
cluster:
  nodes: 1
  node: {gpu: H100, gpus_per_node: 1, nics_per_node: 1, nic_bandwidth: 100 Gbps}
  fabric: {kind: flat}
job:
  model: {builtin: language-model}
  sequence_length: 32
  global_batch: 1
  layout: {data: 1}
  pace: {micro_batch: 25 ms}
run: {steps: 40}
)";

MachineMeasurements ask_live(const std::vector<std::uint32_t>& ranks, bool quick) {
  std::vector<std::string> arguments{"calibrate", fmt::format("{}", fmt::join(ranks, ","))};
  if (quick) arguments.emplace_back("--quick");
  ChildProcess child(sibling_program("orrery-live"), arguments);
  const std::optional<std::string> answer = read_message(child.channel());
  MachineMeasurements measured;
  if (answer && measured.ParseFromString(*answer)) return measured;
  const ExitStatus status = child.wait();
  throw Error(ErrorKind::environment,
              fmt::format("this machine could not be measured: orrery-live ended with {}",
                          status.description()));
}

/// Sets the control time of a step and the latency of links from the phases of a live run. The
/// latency includes the time in which ranks wake up after their pace.
void take_from_run(RankLinks& links, bool quick) {
  const std::vector<std::string> overrides{fmt::format("cluster.nodes={}", links.ranks()),
                                           fmt::format("job.layout.data={}", links.ranks()),
                                           fmt::format("job.global_batch={}", 2 * links.ranks()),
                                           fmt::format("run.steps={}", quick ? 30 : 100)};
  const LoadedScenario probe = parse_scenario(kProbe, "the probe of orrery calibrate", overrides);
  RunRequest request;
  *request.mutable_scenario() = probe.scenario;
  request.set_fabric("grpc");
  const Report report = run(Worker::live, request, probe.places);
  const double rounds = 2.0 * (links.ranks() - 1);
  const double bytes = sizeof(std::int64_t) * parameter_count(probe.scenario.job().model());
  const double moving = rounds / links.ranks() * bytes / links.bandwidth();
  const double exchange = report.phases().exchange_s();
  links.set_latency(std::max(links.latency(), (exchange - moving) / rounds));
  links.set_control(report.phases().rest_s());
}

}  // namespace

MeasuredMachine measure_machine(const std::vector<std::uint32_t>& ranks, bool quick,
                                double tolerance) {
  constexpr int kAttempts = 3;
  MeasuredMachine best;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const MachineMeasurements measurements = ask_live(ranks, quick);
    MachineProfile profile = estimates::fit_machine(measurements);
    const double error = estimates::product_error(measurements, profile);
    if (attempt == 0 || error < best.product_error) best = {std::move(profile), error};
    if (best.product_error <= tolerance) break;
  }
  if (best.product_error > tolerance) return best;
  for (RankLinks& links : *best.profile.mutable_links()) take_from_run(links, quick);
  return best;
}

std::string describe_error(const MeasuredMachine& measured) {
  return fmt::format("the fitted prices of products are off by {:.0f}% on average",
                     100 * measured.product_error);
}

void use_machine(RunRequest& request, const MachineProfile& machine) {
  Scenario& scenario = *request.mutable_scenario();
  if (!scenario.has_job()) {
    throw Error(ErrorKind::bad_input,
                "expected a scenario with a job for a machine's "
                "profile, got none");
  }
  const Layout& layout = scenario.job().layout();
  const std::uint32_t ranks =
      layout.tensor() * layout.context() * layout.pipeline() * layout.data();
  *scenario.mutable_cluster() = machine_topology(machine, ranks);
  *request.mutable_machine() = machine;
}

}  // namespace orrery::cli
