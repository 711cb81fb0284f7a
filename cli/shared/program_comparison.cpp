#include "cli/shared/program_comparison.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cli/shared/program_report.hpp"
#include "cli/shared/program_start.hpp"
#include "cli/shared/user_program.hpp"
#include "core/error.hpp"
#include "core/files/temporary_folder.hpp"
#include "live/programs/program_run.hpp"

namespace orrery::cli {
namespace {

constexpr int kComparisonTick_ms = 20;

/// Rank that is killed once it has done so many steps.
struct Kill {
  std::uint64_t step = 0;
  std::uint32_t rank = 0;
};

std::vector<Kill> kills_of(const ProgramCandidate& candidate) {
  std::vector<Kill> kills;
  const auto& faults = candidate.loaded.scenario.faults();
  for (int i = 0; i < faults.size(); ++i) {
    const Fault& fault = faults[i];
    const bool is_kill = fault.has_at_step() && fault.has_rank() && fault.kill();
    if (!is_kill || fault.rank() >= candidate.ranks) {
      throw problem_at(candidate.loaded.places, fmt::format("faults[{}]", i),
                       fmt::format("expected {{at_step: STEP, rank: 0 to {}, kill: true}}, found "
                                   "another fault: only these happen to a program",
                                   candidate.ranks - 1));
    }
    kills.push_back({fault.at_step(), fault.rank()});
  }
  return kills;
}

Launch launch_of(const ProgramCandidate& candidate) {
  const auto& command = candidate.loaded.scenario.job().program().command();
  return read_launch({command.begin(), command.end()}, candidate.ranks);
}

/// Runs the program until `steps` steps are done, and ends it. Returns the outcome.
live::ProgramOutcome run_steps(const Launch& launch, std::uint64_t steps, std::vector<Kill> kills) {
  const std::string executable = executable_of(launch);
  if (executable.empty()) {
    throw Error(ErrorKind::environment,
                fmt::format("job.program.command: {}: expected a program, found none of this name",
                            launch.command.front()));
  }
  const TemporaryFolder folder("orrery-compare");
  live::ProgramSettings settings;
  settings.ranks = launch.ranks;
  settings.start = starter_of(launch, executable, {.snapshots = folder.path_of("snapshots")});
  settings.print_line = [](const std::string& line) {
    fmt::print(stderr, "orrery compare: {}\n", line);
  };
  settings.signal = drain_signal;
  prepare_environment(launch);
  prepare_attempt(0);
  const SignalWatch watch;
  const StandardOutputAside aside(true);
  live::ProgramRun run(settings);
  run.start();
  bool ends = false;
  while (run.advance_run(kComparisonTick_ms)) {
    std::erase_if(kills, [&run](const Kill& kill) {
      if (run.run_book().steps_of(kill.rank) < kill.step) return false;
      run.kill_rank(kill.rank);
      return true;
    });
    if (ends || run.run_book().steps() < steps) continue;
    ends = true;
    run.end_run();
  }
  live::ProgramOutcome outcome = run.finish_run();
  if (outcome.signal != 0) throw Interrupted();
  return outcome;
}

Report measured_report(const ProgramCandidate& candidate, const live::ProgramOutcome& outcome) {
  const live::RunBook& book = outcome.book;
  Report report;
  report.set_mode("run");
  report.set_scenario(candidate.loaded.scenario.name());
  report.set_ranks(candidate.ranks);
  report.set_ranks_at_end(candidate.ranks - book.missing_ranks().size());
  report.set_steps_completed(book.steps());
  if (const auto median = book.median_step_s()) report.set_step_time_s(*median);
  for (const double each : book.step_durations_s()) report.add_step_times_s(each);
  for (const live::ProgramLoss& loss : book.losses()) {
    FailureReport& failure = *report.add_failures();
    failure.set_cause(loss.cause);
    if (loss.lost_s) failure.set_working_s(*loss.lost_s);
  }
  return report;
}

}  // namespace

bool has_command(const Scenario& scenario) { return scenario.job().program().command_size() > 0; }

ProgramCandidate load_program(const RunOptions& options, std::uint32_t ranks) {
  ProgramCandidate candidate{options.load(), ranks};
  const Job& job = candidate.loaded.scenario.job();
  if (ranks == 0) candidate.ranks = job.layout().data() * std::max(1u, job.layout().tensor());
  if (ranks > 0) {
    RunOptions sized = options;
    sized.own.push_back(fmt::format("job.layout.data={}", ranks));
    sized.own.push_back(fmt::format("cluster.nodes={}", ranks));
    candidate.loaded = sized.load();
  }
  kills_of(candidate);
  return candidate;
}

Comparison compare_program(const ProgramCandidate& candidate) {
  const Scenario& scenario = candidate.loaded.scenario;
  RunRequest request;
  *request.mutable_scenario() = scenario;
  request.set_mode("drive");
  Comparison out{.name = scenario.name()};
  out.predicted = run(Worker::sim, request, candidate.loaded.places);
  const live::ProgramOutcome outcome =
      run_steps(launch_of(candidate), scenario.run().steps(), kills_of(candidate));
  if (!outcome.book.plain_reason().empty()) {
    throw Error(ErrorKind::environment,
                "cannot compare: the program is not attached: " + outcome.book.plain_reason());
  }
  if (!outcome.refused.empty()) {
    throw Error(ErrorKind::environment,
                fmt::format("cannot compare: {} after {} steps: the loss ends the program; leave "
                            "the fault out, or use a program of operations that a loss does not "
                            "end",
                            reason_of_end(outcome), outcome.book.steps()));
  }
  out.measured = measured_report(candidate, outcome);
  if (out.predicted.has_step_time_s() && out.measured.has_step_time_s()) return out;
  throw Error(ErrorKind::goal_missed, out.name +
                                          ": no step was completed, so no times can be "
                                          "compared");
}

}  // namespace orrery::cli
