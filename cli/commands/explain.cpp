// orrery explain: prints the reasons why a job of a job trace or of a recorded log waited.
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/choice_option.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/log_note.hpp"
#include "cli/shared/policy_option.hpp"
#include "cli/shared/replay_options.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "policies/record/log_reader.hpp"
#include "policies/run/replay.hpp"
#include "sim/replay/job_replay.hpp"
#include "sim/replay/wait_watch.hpp"
#include "traces/scenario/replay_conditions.hpp"

namespace orrery::cli {
namespace {

void print_time(const char* what, Nanos time, Nanos whole) {
  fmt::print("  {:>12} s {:>6.1f}%  {}\n", time / kNanosPerSecond,
             whole > 0 ? 100 * to_seconds(time) / to_seconds(whole) : 0.0, what);
}

void print_reasons(const sim::WaitReasons& why, const std::string& policy) {
  const auto instant = [](Nanos at) {
    return at < 0 ? std::string("never") : fmt::format("at {} s", at / kNanosPerSecond);
  };
  const auto counted = [](std::uint64_t count, const char* noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
  };
  const auto gpus = [&why](std::uint64_t slices) {
    const double count = std::round(1e3 * static_cast<double>(slices) / why.slices) / 1e3;
    return fmt::format("{} GPU{}", count, count == 1 ? "" : "s");
  };
  fmt::print("job {}: {}, submitted at {} s, started {}, ended {}\n", why.name,
             gpus(why.gpus), why.submitted / kNanosPerSecond, instant(why.started),
             instant(why.ended));
  fmt::print("at its submission {} {} free, and {} waited before it for {}\n",
             gpus(why.free_gpus), why.free_gpus == why.slices ? "was" : "were",
             counted(why.ahead_jobs, "job"), gpus(why.ahead_gpus));
  if (!why.ahead.empty()) {
    fmt::print("before it waited: {}{}\n", fmt::join(why.ahead, ", "),
               why.ahead_jobs > why.ahead.size() ? ", ..." : "");
  }
  if (why.taken_off > 0) fmt::print("it was preempted {}\n", counted(why.taken_off, "time"));
  fmt::print("it waited {} s:\n", why.waited() / kNanosPerSecond);
  print_time("fewer GPUs were free than the job needs", why.too_few, why.waited());
  print_time("enough GPUs were free, but not where the job could be placed", why.scattered,
             why.waited());
  print_time(fmt::format("it could have been placed, but {} preferred other jobs", policy).c_str(),
             why.order, why.waited());
  fmt::print("meanwhile {} of a later submission started, with {}\n",
             counted(why.overtook_jobs, "job"), gpus(why.overtook_gpus));
}

/// Returns the header of a recorded log of jobs; nothing for any other file.
std::optional<LogHeader> header_of_jobs(const std::string& file) {
  try {
    LogReader log(file);
    LogHeader header = read_header(log);
    return header.has_replay() ? std::optional(std::move(header)) : std::nullopt;
  } catch (const Error&) {
    return {};
  }
}

/// Explains a wait in a run that was recorded, by a replay of the same decisions.
int explain_recorded(const std::string& log, const LogHeader& header, const std::string& job) {
  const auto policy = recorded_scheduler(header);
  sim::WaitWatch watch(*policy, job, header.replay().placement());
  const ReplayResult result = replay_log(log, watch);
  if (!result.first_difference.empty()) {
    throw Error(ErrorKind::goal_missed,
                fmt::format("{}: expected the recorded decisions, found a difference: {}", log,
                            result.first_difference));
  }
  if (!watch.reasons().found) {
    throw Error(ErrorKind::usage, fmt::format("there is no job '{}' in {}", job, log));
  }
  print_reasons(watch.reasons(), header.replay().policy());
  return 0;
}

/// Start of a job in the log itself, of which the replay knows nothing.
struct RecordedWait {
  std::size_t jobs = 0;  ///< number of jobs with the id
  std::optional<std::int64_t> wait_s;
};

RecordedWait recorded_wait(const std::vector<TraceJob>& jobs, const std::string& id) {
  RecordedWait recorded;
  for (const TraceJob& job : jobs) {
    if (job.id.str() != id || recorded.jobs++ > 0 || job.recorded_start_s < 0) continue;
    recorded.wait_s = std::int64_t{job.recorded_start_s} - std::int64_t{job.submit_s};
  }
  return recorded;
}

void print_recorded(const RecordedWait& recorded, const JobReplay& replay) {
  if (recorded.jobs > 1) {
    fmt::print("{} jobs of the log have this id; these lines are about the first\n", recorded.jobs);
  }
  if (!recorded.wait_s) return;
  fmt::print(
      "in the log it waited {} s; the lines above are about the replay under {} on {} x {} "
      "GPUs (orrery jobs --backtest compares both)\n",
      *recorded.wait_s, replay.policy(), replay.nodes(), replay.gpus_per_node());
}

int explain(const ReplayOptions& options, const std::string& job) {
  if (const auto header = header_of_jobs(options.file)) {
    print_log_note(options.file, *header);
    return explain_recorded(options.file, *header, job);
  }
  JobReplay replay = asked_for(options);
  if (speed_of(replay.conditions()) == JobSpeed::simulated) {
    throw Error(ErrorKind::usage,
                "orrery explain: expected jobs of recorded speed, got simulated "
                "speed: add --speed recorded");
  }
  JobLog log = load_log(replay, options);
  sim::settle_slices(replay, log.jobs);
  const RecordedWait recorded = recorded_wait(log.jobs, job);
  const auto policy = scheduler_of(replay);
  sim::WaitWatch watch(*policy, job, replay.placement());
  const JobsReport report = sim::replay_jobs(std::move(log.jobs), replay, watch, options.record);
  if (watch.reasons().found) {
    print_reasons(watch.reasons(), replay.policy());
    print_recorded(recorded, replay);
    return 0;
  }
  for (const RejectedRow& row : report.rejected()) {
    if (row.job_id() != job) continue;
    fmt::print("job {} was rejected: line {}, {}\n", job, row.line(), row.reason());
    return 0;
  }
  throw Error(ErrorKind::usage, fmt::format("there is no job '{}' in {}", job, replay.trace()));
}

}  // namespace

void add_explain(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<ReplayOptions>();
  const auto job = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "explain", "explain the wait of a job of a job trace or of a recorded log");
  declare_replay(*command, options);
  command->add_option("--job", *job, "id of the job")->type_name("ID")->required();
  add_examples(*command, {"orrery explain trace.csv --job 1317 --nodes 16 --gpus-per-node 8 "
                          "--policy easy",
                          "orrery explain gpu.log --job 4711"});
  command->callback(
      [options, job, &chosen] { chosen = [options, job] { return explain(*options, *job); }; });
}

}  // namespace orrery::cli
