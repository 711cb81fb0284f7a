#include "cli/shared/program_calibration.hpp"

#include <csignal>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "cli/shared/measured_program.hpp"
#include "cli/shared/output_file.hpp"
#include "cli/shared/program_start.hpp"
#include "cli/shared/user_program.hpp"
#include "core/error.hpp"
#include "core/files/file_kind.hpp"
#include "core/files/temporary_folder.hpp"
#include "live/programs/calibration/step_recording.hpp"
#include "live/programs/program_run.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kCalibrationTick_ms = 50;
/// Steps beside the measured ones, in which the program warms up (profiling.py).
constexpr std::uint32_t kWarmUp = 4;

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

}  // namespace

int calibrate_program(const ProgramCalibration& options) {
  const Launch launch = read_launch(options.program, options.ranks);
  const std::string executable = executable_of(launch);
  if (executable.empty()) {
    fmt::print(stderr, "error: {}: expected a program, found none of this name\n",
               launch.command.front());
    return kProgramNotFound;
  }
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
  if (options.per_example && measured.examples == 0) {
    throw Error(ErrorKind::environment,
                "--per-example: expected batches of one size on all ranks, from data loaders that "
                "give tensors with the examples as rows; found none, or different sizes");
  }
  MeasuredOrigin origin{
      .comment =
          "This program on this machine as `orrery calibrate` measured it; for simulate and "
          "compare.",
      .description = fmt::format("{} on {} ranks of the machine of the calibration",
                                 name_of(launch), launch.ranks),
      .command = launch.command,
      .examples = options.per_example ? measured.examples : 0};
  if (launch.is_torchrun) origin.command[0] = executable;
  write_measured(measured, origin, options.out, scenario);
  return 0;
}

}  // namespace orrery::cli
