// Cost of control: the step of a live run with everything on (controller, heartbeats, recording)
// against the same training loop among bare processes, interleaved, as a paired ratio with a 95%
// interval; and the CPU time of both. Exit code 1 if the goal (below 1% of a step) is missed, or if
// the machine is too noisy to tell. overhead_bench [PAIRS]
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/process.hpp"
#include "live/fabric/grpc_fabric.hpp"
#include "live/run/files/run_folder.hpp"
#include "live/training/device.hpp"
#include "live/training/trainer.hpp"
#include "live/transport/secrets.hpp"
#include "policies/run/worker.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery::live {
namespace {

constexpr double kGoal = 0.01;
constexpr std::uint32_t kRanks = 2;

/// Returns two ranks with steps of 0.4 s, as in the shipped example.
Scenario scenario() {
  return load_scenario(ORRERY_SOURCE_DIR "/examples/straggler-4-ranks.yaml",
                       {fmt::format("job.layout.data={}", kRanks), "job.global_batch=20",
                        "faults=[]", "run.steps=6"})
      .scenario;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

struct Run {
  double step_s = 0, cpu_s = 0;  ///< median; of all processes
};

// ---- bare processes -------------------------------------------------------------------------

std::string address(const std::string& folder, std::uint32_t rank) {
  return fmt::format("unix:{}/{}", folder, rank);
}

/// One rank of the loop, nothing round it. Answers with its median step and CPU time.
int bare_rank(std::uint32_t rank, const std::string& folder) {
  const Scenario what = scenario();
  const Text text = Text::load(what.live().text());
  const auto device = make_cpu_device(what.run().seed(), what.live().learning_rate());
  const auto fabric = std::make_shared<GrpcFabric>(rank, kRanks, address(folder, rank),
                                                   read_secrets(folder, true));
  if (!write_message(kChildDescriptor, "listening") || !read_message(kChildDescriptor)) return 1;
  std::vector<std::string> addresses;
  for (std::uint32_t each = 0; each < kRanks; ++each) addresses.push_back(address(folder, each));
  fabric->connect_next(addresses);
  Trainer trainer(what, text, *device);
  trainer.set_fabric(fabric);
  const std::uint32_t share = what.job().global_batch() / kRanks;
  std::vector<double> steps;
  const Nanos cpu = process_cpu();
  for (std::uint64_t step = 0; step < what.run().steps(); ++step) {
    const auto start = Clock::now();
    StepPlan plan;
    plan.set_step(step);
    for (std::uint32_t each = 0; each < kRanks; ++each) {
      plan.add_shares()->set_first(each * share);
      plan.mutable_shares(static_cast<int>(each))->set_count(share);
    }
    trainer.run_step(plan);
    trainer.apply();
    steps.push_back(to_seconds(since(start)));
  }
  write_message(kChildDescriptor,
                fmt::format("{} {}", median(steps), to_seconds(process_cpu() - cpu)));
  read_message(kChildDescriptor);  // nobody's link goes while another still sums
  return 0;
}

Run bare(const std::string& program) {
  const RunFolder folder;
  write_secrets(make_secrets(true), folder.path());
  std::vector<ChildProcess> ranks;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back(program,
                       std::vector<std::string>{"bare", std::to_string(rank), folder.path()});
  }
  const auto hear = [](ChildProcess& rank) {
    const auto said = read_message(rank.channel());
    if (!said)
      throw Error(ErrorKind::environment, "a bare rank died: " + rank.wait().description());
    return *said;
  };
  for (ChildProcess& rank : ranks) hear(rank);
  for (ChildProcess& rank : ranks) write_message(rank.channel(), "go");
  Run run;
  for (ChildProcess& rank : ranks) {
    const std::string said = hear(rank);
    char* rest = nullptr;
    run.step_s = std::max(run.step_s, std::strtod(said.c_str(), &rest));
    run.cpu_s += std::strtod(rest, nullptr);
  }
  for (ChildProcess& rank : ranks) rank.close_channel();
  return run;
}

// ---- everything on --------------------------------------------------------------------------

Run controlled(const std::string& program) {
  const RunFolder folder;
  RunRequest request;
  *request.mutable_scenario() = scenario();
  request.set_mode("drive");
  request.set_fabric("grpc");
  request.set_record(folder.path() + "/log");
  const Report report = run_in_worker(program, request);
  std::filesystem::remove(folder.path() + "/log");
  return {.step_s = report.step_time_s(),
          .cpu_s = report.real_cpu_cores() * report.elapsed_s() + report.control_cpu_s()};
}

int measure(const std::string& own, int pairs) {
  const std::string live = ORRERY_BINARY_DIR "/bin/orrery-live";
  std::vector<double> ratios, cpu;
  Run last;
  for (int pair = 0; pair < pairs; ++pair) {
    Run on, off;
    if (pair % 2 == 0) on = controlled(live);
    off = bare(own);
    if (pair % 2 == 1) on = controlled(live);
    ratios.push_back(on.step_s / off.step_s);
    cpu.push_back((on.cpu_s - off.cpu_s) / (scenario().run().steps() * on.step_s));
    last = off;
    fmt::print("pair {:2}: {:.2f} ms controlled, {:.2f} ms bare\n", pair + 1, 1e3 * on.step_s,
               1e3 * off.step_s);
    std::fflush(stdout);
  }
  // The median's 95% interval, by the ranks that a binomial gives.
  std::sort(ratios.begin(), ratios.end());
  const double half = 0.98 * std::sqrt(static_cast<double>(pairs));
  const auto at = [&](double place) {
    const double last_place = static_cast<double>(pairs - 1);
    return ratios[static_cast<std::size_t>(std::clamp(std::round(place), 0.0, last_place))] - 1;
  };
  const double middle = median(ratios) - 1, low = at(pairs / 2.0 - half - 0.5),
               high = at(pairs / 2.0 + half - 0.5);
  fmt::print("{} ranks, steps of {:.0f} ms: control and recording add {:+.2f}% of a step (95%: "
             "{:+.2f}% .. {:+.2f}%)\nCPU beside training: {:.2f}% of one core (median)\n",
             kRanks, 1e3 * last.step_s, 100 * middle, 100 * low, 100 * high, 100 * median(cpu));
  const char* verdict = high < kGoal ? "below 1% of a step" : "above 1% of a step";
  if (low < kGoal && high >= kGoal) verdict = "too noisy to tell whether it is below 1%";
  fmt::print("{}\n", verdict);
  return high < kGoal ? 0 : static_cast<int>(ErrorKind::goal_missed);
}

}  // namespace
}  // namespace orrery::live

int main(int count, char** values) {
  using namespace orrery;
  try {
    if (count == 4 && std::string(values[1]) == "bare") {
      return live::bare_rank(static_cast<std::uint32_t>(std::atoi(values[2])), values[3]);
    }
    return live::measure(std::filesystem::canonical(values[0]).string(),
                         count > 1 ? std::max(30, std::atoi(values[1])) : 30);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.kind());
  }
}
