#include "cli/shared/program_calibration.hpp"

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/shared/measured_program.hpp"
#include "cli/shared/output_file.hpp"
#include "cli/shared/program_start.hpp"
#include "cli/shared/torch_traces.hpp"
#include "cli/shared/user_program.hpp"
#include "core/error.hpp"
#include "core/files/file_kind.hpp"
#include "core/files/temporary_folder.hpp"
#include "core/schema/names.hpp"
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

/// Creates the folder of the traces. Returns its absolute path; empty without one.
std::string prepare_traces(const std::string& folder) {
  if (folder.empty()) return "";
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (!problem && fs::is_directory(folder)) return fs::absolute(folder).string();
  throw Error(
      ErrorKind::environment,
      fmt::format("--traces: {}: expected a folder, or a place where one can be created", folder));
}

/// Imports the traces that the ranks have written, or says why they cannot be imported.
void import_own_traces(const std::string& folder, std::uint32_t ranks,
                       const ProgramCalibration& options, MeasuredOrigin origin) {
  std::vector<std::string> files;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    for (const char* tool : {"et", "kineto"}) {
      files.push_back((fs::path(folder) / fmt::format("{}.{}.json", tool, rank)).string());
    }
  }
  const std::string out = (fs::path(folder) / fs::path(options.out).filename()).string();
  fmt::print("\ntraced steps, which take longer: {}\n", out);
  std::fflush(stdout);
  origin.comment = "This program as PyTorch's own tools recorded it for `orrery calibrate`.";
  try {
    OutputFile scenario(out);
    import_traces(files, std::move(origin), out, scenario);
  } catch (const Error& error) {
    fmt::print(stderr, "warning: the traces stay in {}, and are not imported: {}\n", folder,
               error.what());
  }
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
                          .sums = named<SumPath>(options.sums),
                          .profile_folder = folder.path_of("profiles"),
                          .profile_steps = options.steps,
                          .trace_folder = prepare_traces(options.traces)};
  fs::create_directory(attached.profile_folder);
  prepare_environment(launch);
  const live::ProgramOutcome outcome = run_until_profiled(launch, executable, attached);
  if (!has_profiles(attached.profile_folder, launch.ranks)) {
    const std::string& reason = outcome.book.plain_reason();
    throw Error(
        ErrorKind::environment,
        fmt::format("cannot calibrate this program: expected {} optimizer steps of PyTorch, "
                    "{}the program ended before with exit code {}{}; --steps wants fewer",
                    options.steps + kWarmUp,
                    options.traces.empty() ? "" : "and then some with an nn.Module for --traces, ",
                    outcome.exit_code, reason.empty() ? "" : " (not attached: " + reason + ")"));
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
      .sums = options.sums,
      .examples = options.per_example ? measured.examples : 0};
  if (launch.is_torchrun) origin.command[0] = executable;
  write_measured(measured, origin, options.out, scenario);
  if (!attached.trace_folder.empty())
    import_own_traces(attached.trace_folder, launch.ranks, options, origin);
  return 0;
}

}  // namespace orrery::cli
