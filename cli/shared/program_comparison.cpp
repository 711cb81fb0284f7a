#include "cli/shared/program_comparison.hpp"

#include <algorithm>
#include <csignal>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cli/shared/program_policies.hpp"
#include "cli/shared/program_report.hpp"
#include "cli/shared/program_start.hpp"
#include "cli/shared/program_status.hpp"
#include "cli/shared/user_program.hpp"
#include "cli/shared/warm_ranks.hpp"
#include "core/error.hpp"
#include "core/files/temporary_folder.hpp"
#include "core/schema/names.hpp"
#include "live/programs/policies/program_attempts.hpp"

namespace orrery::cli {
namespace {

constexpr int kComparisonTick_ms = 20;
/// Replacements that a policy may order, as in `orrery run` without --replace.
constexpr std::uint32_t kComparedReplacements = 3;
constexpr double kPolicyTimeout_s = 60;  ///< limit of one call of the policies, as in `orrery run`

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

/// Faults and end of the real run, at the steps of the scenario.
class Course {
 public:
  Course(std::vector<Kill> kills, std::uint64_t steps) : kills_(std::move(kills)), steps_(steps) {}

  /// Kills the ranks that have done the steps of their kills. Returns true once, when all steps of
  /// the run are done.
  bool advance(live::ProgramRun& run) {
    std::erase_if(kills_, [&run](const Kill& kill) {
      if (run.run_book().steps_of(kill.rank) < kill.step) return false;
      run.kill_rank(kill.rank);
      return true;
    });
    if (is_over_ || run.run_book().steps() < steps_) return false;
    is_over_ = true;
    return true;
  }

 private:
  std::vector<Kill> kills_;
  const std::uint64_t steps_;
  bool is_over_ = false;
};

/// Result of the program in the real world.
struct RealRun {
  live::ProgramOutcome outcome;
  std::optional<ProgramPolicyReport> policies;
};

/// Runs the program under the policies, perhaps none, until `steps` steps are done, and ends it.
RealRun run_steps(const Launch& launch, std::uint64_t steps, std::vector<Kill> kills,
                  const std::vector<PolicySpec>& specs, SumPath sums) {
  const std::string executable = executable_of(launch);
  if (executable.empty()) {
    throw Error(ErrorKind::environment,
                fmt::format("job.program.command: {}: expected a program, found none of this name",
                            launch.command.front()));
  }
  ProgramPolicyOptions options;
  options.specs = specs;
  options.operation.on_policy_error = orrery::name_of(OnPolicyError::stop);
  options.operation.policy_timeout_s = kPolicyTimeout_s;
  std::optional<ProgramPolicies> policies;
  if (options.has_policies()) policies.emplace(options, name_of(launch), launch.ranks);
  const TemporaryFolder folder("orrery-compare");
  live::ProgramSettings settings;
  settings.ranks = launch.ranks;
  settings.replaces_by_order = policies && policies->decide_recovery();
  settings.replacements = settings.replaces_by_order ? kComparedReplacements : 0;
  settings.print_line = [](const std::string& line) {
    fmt::print(stderr, "orrery compare: {}\n", line);
  };
  prepare_environment(launch);
  WarmRanks ranks(launch, executable,
                  {.snapshots = folder.path_of("snapshots"),
                   .has_policies = options.has_policies(),
                   .sums = sums},
                  folder.path_of("."), settings.print_line);
  settings.start = [&ranks](const live::RankStart& start) { return ranks.start_rank(start); };
  ProgramStatus status(name_of(launch), policies ? options.operation.mode : "",
                       policies ? policies->names() : std::vector<std::string>{});
  Course course(std::move(kills), steps);
  live::ProgramAttempts* running = nullptr;
  int stopped_by = 0;
  settings.signal = [&] {
    status.publish_status(running->current());
    const int stop = status.obey_stop(*running->current());
    if (const int number = stop != 0 ? stop : drain_signal(); number != 0) {
      return stopped_by = number;
    }
    return course.advance(*running->current()) ? SIGTERM : 0;
  };
  const SignalWatch watch;
  const StandardOutputAside aside(true);
  if (settings.replacements > 0 && !ranks.start_process(WarmUse::spares)) throw Interrupted();
  live::ProgramAttempts attempts(settings, 0, prepare_attempt);
  running = &attempts;
  std::optional<ProgramPolicyReport> report;
  if (policies) {
    report = policies->run(attempts, status);
  } else {
    attempts.start(nullptr);
    while (attempts.advance_run(kComparisonTick_ms)) {}
  }
  if (stopped_by != 0) throw Interrupted();
  return {attempts.outcomes().back(), std::move(report)};
}

Report measured_report(const ProgramCandidate& candidate, const RealRun& real) {
  const live::RunBook& book = real.outcome.book;
  Report report;
  report.set_mode("run");
  report.set_scenario(candidate.loaded.scenario.name());
  report.set_ranks(candidate.ranks);
  report.set_ranks_at_end(candidate.ranks - book.missing_ranks().size());
  report.set_steps_completed(book.steps());
  if (const auto median = book.median_step_s()) report.set_step_time_s(*median);
  for (const double each : book.step_durations_s()) report.add_step_times_s(each);
  report.set_bytes_on_wire(book.sent_bytes());
  if (real.policies) report.set_decisions(real.policies->decisions);
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

namespace {

/// Runs the scenario in both worlds, under its policies.
Comparison run_both_worlds(const ProgramCandidate& candidate) {
  const Scenario& scenario = candidate.loaded.scenario;
  RunRequest request;
  *request.mutable_scenario() = scenario;
  request.set_mode("drive");
  Comparison out{.name = scenario.name()};
  out.predicted = run(Worker::sim, request, candidate.loaded.places);
  const RealRun real = run_steps(launch_of(candidate), scenario.run().steps(), kills_of(candidate),
                                 {scenario.policies().begin(), scenario.policies().end()},
                                 named<SumPath>(scenario.job().program().sums()));
  const live::ProgramOutcome& outcome = real.outcome;
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
  out.measured = measured_report(candidate, real);
  if (out.predicted.has_step_time_s() && out.measured.has_step_time_s()) return out;
  throw Error(ErrorKind::goal_missed, out.name +
                                          ": no step was completed, so no times can be "
                                          "compared");
}

}  // namespace

Comparison compare_program(const ProgramCandidate& candidate) {
  const auto& policies = candidate.loaded.scenario.policies();
  if (policies.empty()) return run_both_worlds(candidate);
  ProgramCandidate plain = candidate;
  plain.loaded.scenario.clear_policies();
  auto without = std::make_shared<Comparison>(run_both_worlds(plain));
  Comparison out = run_both_worlds(candidate);
  for (const PolicySpec& policy : policies) out.policies.push_back(policy.name());
  without->name += " without policies";
  out.without_policies = std::move(without);
  return out;
}

}  // namespace orrery::cli
