#include "cli/shared/program_calibration.hpp"

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/shared/output_file.hpp"
#include "cli/shared/program_start.hpp"
#include "cli/shared/user_program.hpp"
#include "core/error.hpp"
#include "core/files/file_kind.hpp"
#include "core/files/temporary_folder.hpp"
#include "core/schema/yaml_writer.hpp"
#include "live/programs/calibration/step_recording.hpp"
#include "live/programs/program_run.hpp"
#include "traces/chakra/recording.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kCalibrationTick_ms = 50;
/// Steps beside the measured ones, in which the program warms up (profiling.py).
constexpr std::uint32_t kWarmUp = 4;

std::string profile_path(const std::string& folder, std::uint32_t rank) {
  return (fs::path(folder) / std::to_string(rank)).string();
}

bool has_profiles(const std::string& folder, std::uint32_t ranks) {
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    if (!is_file(profile_path(folder, rank))) return false;
  }
  return true;
}

/// Runs the program until all ranks have written their profiles, and ends it. Returns the outcome.
live::ProgramOutcome run_until_profiled(const Launch& launch, const std::string& executable,
                                        const AttachSettings& attached) {
  live::ProgramSettings settings;
  settings.ranks = launch.ranks;
  settings.start = starter_of(launch, executable, attached);
  settings.print_line = [](const std::string& line) {
    fmt::print(stderr, "orrery calibrate: {}\n", line);
  };
  settings.signal = drain_signal;
  const SignalWatch watch;
  const StandardOutputAside aside(true);
  prepare_attempt(0);
  live::ProgramRun run(settings);
  run.start();
  bool ends = false;
  while (run.advance_run(kCalibrationTick_ms)) {
    if (ends || !has_profiles(attached.profile_folder, launch.ranks)) continue;
    ends = true;
    run.end_run();
  }
  return run.finish_run();
}

std::vector<live::RankProfile> read_profiles(const std::string& folder, std::uint32_t ranks) {
  std::vector<live::RankProfile> profiles;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::string path = profile_path(folder, rank);
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    profiles.push_back(live::rank_profile_of(text.str(), path));
  }
  return profiles;
}

/// Returns this machine as the program's ranks see it: nodes of one processor each behind a switch,
/// with the fitted links. Its other figures have no effect on measured times.
Topology machine_of(const live::MeasuredStep& measured, std::uint32_t ranks) {
  Topology topology;
  topology.set_nodes(ranks);
  NodeSpec& node = *topology.mutable_node();
  node.set_gpu("this machine");
  node.set_gpus_per_node(1);
  node.set_nics_per_node(1);
  FabricSpec& fabric = *topology.mutable_fabric();
  fabric.set_kind("flat");
  fabric.set_line_rate(true);
  fabric.set_nvlink_latency(0);
  fabric.set_hop_latency(0);
  const live::FittedLinks links = measured.links.value_or(live::FittedLinks{1e-4, 1e10, 0});
  node.set_nic_bandwidth(links.bandwidth);
  node.set_host_power(0);
  fabric.set_nic_latency(links.latency_s);
  GpuSpec& processor = *topology.add_gpus();
  processor.set_name("this machine");
  processor.set_memory(1e12);
  processor.set_memory_bandwidth(1e10);
  processor.set_fp32(1e11);
  processor.set_bf16(1e11);
  processor.set_pcie(1e12);
  processor.set_idle_power(1);
  processor.set_max_power(1);
  processor.add_source(
      "rates, memory and power are placeholders: all times of the program are "
      "measured");
  return topology;
}

std::string links_text(const live::MeasuredStep& measured) {
  if (!measured.links) return "no operation of a group: the links are placeholders";
  return fmt::format(
      "a round {:.0f} us, {:.0f} MB/s; the fitted times are off by {:.0f}% on "
      "average",
      measured.links->latency_s * 1e6, measured.links->bandwidth / 1e6,
      100 * measured.links->error);
}

/// Returns the scenario. Its job is written here: the schema's writer would write zeros for the
/// values that follow from the recording.
std::string scenario_text(const live::MeasuredStep& measured, const Launch& launch,
                          const std::string& executable, const fs::path& prefix) {
  Scenario scenario;
  scenario.set_name(prefix.filename().string());
  scenario.set_description(fmt::format("{} on {} ranks of the machine of the calibration",
                                       name_of(launch), launch.ranks));
  *scenario.mutable_cluster() = machine_of(measured, launch.ranks);
  scenario.set_elastic(true);
  scenario.mutable_survival()->set_on_loss("go-on");  // tier T0, as without a policy
  scenario.mutable_run()->set_steps(100);
  nlohmann::json command = launch.command;
  if (launch.is_torchrun) command[0] = executable;
  return to_yaml_file(scenario) + fmt::format("job:\n  program: {{trace: {}, command: {}}}\n",
                                              nlohmann::json(prefix.filename().string()).dump(),
                                              command.dump());
}

std::string summary(const live::MeasuredStep& measured, const Launch& launch) {
  std::uint64_t collectives = 0;
  double bytes = 0;
  for (const RecordedOp& op : measured.step.ops()) {
    collectives += op.collective().empty() ? 0 : 1;
    bytes += op.bytes();
  }
  return fmt::format(
      "ranks        {}\n"
      "step         {:.2f} ms, mean of {} of {} steps\n"
      "compute      {:.2f} ms, {} backward pass{}\n"
      "input        {:.2f} ms\n"
      "exchange     {:.2f} ms beside that, {} operations of {:.2f} MiB\n"
      "links        {}\n"
      "memory       {:.2f} GiB a rank at the peak\n",
      launch.ranks, measured.duration_s * 1e3, measured.used_steps, measured.seen_steps,
      measured.compute_s * 1e3, measured.step.micro_batches(),
      measured.step.micro_batches() == 1 ? "" : "es", measured.input_s * 1e3,
      measured.exchange_s * 1e3, collectives, bytes / (1 << 20), links_text(measured),
      measured.step.peak_bytes() / (1 << 30));
}

}  // namespace

int calibrate_program(const ProgramCalibration& options) {
  const Launch launch = read_launch(options.program, options.ranks);
  const std::string executable = executable_of(launch);
  if (executable.empty()) {
    fmt::print(stderr, "error: {}: expected a program, found none of this name\n",
               launch.command.front());
    return kProgramNotFound;
  }
  fs::path prefix = options.out;
  prefix.replace_extension();
  OutputFile scenario(options.out);
  const TemporaryFolder folder("orrery-calibrate");
  AttachSettings attached{.snapshots = folder.path_of("snapshots"),
                          .profile_folder = folder.path_of("profiles"),
                          .profile_steps = options.steps};
  fs::create_directory(attached.profile_folder);
  prepare_environment(launch);
  const live::ProgramOutcome outcome = run_until_profiled(launch, executable, attached);
  if (!has_profiles(attached.profile_folder, launch.ranks)) {
    const std::string& reason = outcome.book.plain_reason();
    throw Error(
        ErrorKind::environment,
        fmt::format("cannot calibrate this program: expected {} optimizer steps of PyTorch, "
                    "the program ended before with exit code {}{}; --steps wants fewer",
                    options.steps + kWarmUp, outcome.exit_code,
                    reason.empty() ? "" : " (not attached: " + reason + ")"));
  }
  const live::MeasuredStep measured =
      live::measure_step(read_profiles(attached.profile_folder, launch.ranks));
  write_recording(measured.step, prefix.string());
  scenario.write_and_rename(
      "# This program on this machine as `orrery calibrate` measured it; for simulate and "
      "compare.\n" +
      scenario_text(measured, launch, executable, prefix));
  fmt::print("{}", summary(measured, launch));
  return 0;
}

}  // namespace orrery::cli
