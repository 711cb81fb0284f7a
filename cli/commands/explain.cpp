// orrery explain: prints the reasons why a job of a job trace waited.
#include <memory>
#include <string>

#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/policy_option.hpp"
#include "cli/shared/replay_options.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "sim/replay/job_replay.hpp"
#include "sim/replay/wait_watch.hpp"

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
  fmt::print("job {}: {} GPUs, submitted at {} s, started {}, ended {}\n", why.name, why.gpus,
             why.submitted / kNanosPerSecond, instant(why.started), instant(why.ended));
  fmt::print("at its submission {} GPUs were free, and {} jobs waited before it for {} GPUs\n",
             why.free_gpus, why.ahead_jobs, why.ahead_gpus);
  if (why.taken_off > 0) fmt::print("it was preempted {} times\n", why.taken_off);
  fmt::print("it waited {} s:\n", why.waited() / kNanosPerSecond);
  print_time("fewer GPUs were free than the job needs", why.too_few, why.waited());
  print_time("enough GPUs were free, but not where the job could be placed", why.scattered,
             why.waited());
  print_time(fmt::format("it could have been placed, but {} preferred other jobs", policy).c_str(),
             why.order, why.waited());
  fmt::print("meanwhile {} jobs that were submitted later started, with {} GPUs\n",
             why.overtook_jobs, why.overtook_gpus);
}

int explain(const ReplayOptions& options, const std::string& job) {
  const JobReplay replay = asked_for(options);
  if (replay.conditions().speed() == "simulated") {
    throw Error(ErrorKind::usage, "orrery explain: expected jobs of recorded speed, got simulated "
                                  "speed: add --speed recorded");
  }
  JobLog log = load_log(replay, options);
  const auto policy = scheduler_of(replay);
  sim::WaitWatch watch(*policy, job, replay.placement());
  const JobsReport report = sim::replay_jobs(std::move(log.jobs), replay, watch, options.record);
  if (watch.reasons().found) {
    print_reasons(watch.reasons(), replay.policy());
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
  CLI::App* command = app.add_subcommand("explain", "explain the wait of a job of a job trace");
  declare_replay(*command, options);
  command->add_option("--job", *job, "id of the job")->type_name("ID")->required();
  add_examples(*command, {"orrery explain trace.csv --job 1317 --nodes 16 --gpus-per-node 8 "
                          "--policy easy"});
  command->callback(
      [options, job, &chosen] { chosen = [options, job] { return explain(*options, *job); }; });
}

}  // namespace orrery::cli
