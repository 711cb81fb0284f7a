#include "cli/shared/live_jobs.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/shared/policy_option.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "live/jobs/local_jobs.hpp"
#include "policies/placement/placer.hpp"
#include "policies/record/recorder.hpp"
#include "policies/record/standing_book.hpp"
#include "policies/run/registry.hpp"
#include "policies/seam/drive.hpp"
#include "sim/replay/job_estimates.hpp"
#include "sim/replay/job_replay.hpp"
#include "traces/jobs/job_log.hpp"
#include "traces/report/report.hpp"
#include "traces/scenario/replay_conditions.hpp"

namespace orrery::cli {
namespace {

using What = StandingBook::Line::What;

/// Results of the live run: the events of the jobs, and figures of the processes.
struct Course {
  std::vector<StandingBook::Line> lines;
  std::vector<live::LocalJobs::Outcome> outcomes;
  std::uint64_t processes = 0;
  double most_behind_ms = 0;

  std::uint64_t count(What what) const {
    return static_cast<std::uint64_t>(std::count_if(
        lines.begin(), lines.end(), [what](const auto& line) { return line.what == what; }));
  }
  std::uint64_t failed() const {
    return static_cast<std::uint64_t>(std::count_if(
        outcomes.begin(), outcomes.end(), [](const auto& outcome) { return outcome.failed; }));
  }
};

JobReplay replay_of(const LiveJobsOptions& options, const std::vector<std::string>& policies) {
  if (options.nodes == 0 || options.gpus_per_node == 0) {
    throw Error(ErrorKind::usage, "expected a cluster for the log, got none: give --nodes N "
                                  "--gpus-per-node G");
  }
  JobReplay replay;
  replay.set_trace(options.log);
  replay.set_nodes(options.nodes);
  replay.set_gpus_per_node(options.gpus_per_node);
  if (policies.size() > 1) {
    throw Error(ErrorKind::usage, "--jobs: expected one --policy, got several");
  }
  replay.set_policy(policies.empty() ? "fifo" : policies[0]);
  check_policy_name(replay.policy());
  replay.set_placement(options.placement);
  replay.set_estimates(options.estimates);
  return replay;
}

/// Returns the jobs that are submitted in the excerpt, with submission times from its begin and
/// without dependencies.
std::vector<TraceJob> excerpt(const LiveJobsOptions& options) {
  std::vector<TraceJob> jobs;
  for (TraceJob& job : load_job_log(options.log).jobs) {
    const std::int64_t at = job.submit_s - options.begin_s;
    if (at < 0 || at >= options.for_s) continue;
    job.submit_s = at;
    job.after = {};
    jobs.push_back(std::move(job));
  }
  if (!jobs.empty()) return jobs;
  throw Error(ErrorKind::usage, fmt::format("{} has no job that comes in the {} s from second {}",
                                            options.log, options.for_s, options.begin_s));
}

Course run_here(const LiveJobsOptions& options, const JobReplay& replay,
                const std::vector<TraceJob>& jobs, const std::string& record) {
  const auto policy = scheduler_of(replay);
  StandingBook book(*policy);
  sim::JobEstimates estimates(sim::estimate_choice(replay, 1));
  live::LocalJobs local(cluster_of(replay), jobs,
                        {[&](const TraceJob& job) { return estimates.at_submission(job); },
                         [&](const TraceJob& job, Nanos ran) { estimates.record_end(job, ran); }},
                        {.speed = options.speed, .until = options.for_s * kNanosPerSecond});
  LogHeader header;
  header.set_version(version());
  header.set_mode("jobs");
  *header.mutable_replay() = replay;
  Recorder recorder(local, book, header, {.path = record, .hash = !record.empty()});
  Rng rng = policy_rng(0);
  Context context{rng, {}};
  drive(book, recorder, context);
  recorder.finish_log();
  const std::chrono::duration<double, std::milli> behind = local.most_behind();
  return {book.lines(), local.outcomes(), local.processes(), behind.count()};
}

std::vector<StandingBook::Line> rehearse(const JobReplay& replay, std::vector<TraceJob> jobs) {
  const auto policy = scheduler_of(replay);
  StandingBook book(*policy);
  sim::replay_jobs(std::move(jobs), replay, book);
  return book.lines();
}

void print_line(std::string_view what, const std::string& text) {
  fmt::print("{:<16}{}\n", what, text);
}

void print_summary(const LiveJobsOptions& options, const std::string& policy, const Course& course,
                   std::size_t jobs, const std::string& difference) {
  print_line("jobs", fmt::format("{} of {}, from second {} for {} s, {:g} times as fast", jobs,
                                 options.log, options.begin_s, options.for_s, options.speed));
  print_line("cluster", fmt::format("{} nodes x {} GPUs as slots of this machine, {}, {} placement",
                                    options.nodes, options.gpus_per_node, policy,
                                    options.placement));
  print_line("processes", fmt::format("{} started, {} killed to make room, {} failed",
                                      course.processes, course.count(What::stopped),
                                      course.failed()));
  print_line("jobs that ended", fmt::format("{}", course.count(What::done)));
  print_line("behind", fmt::format("at most {:.1f} ms", course.most_behind_ms));
  print_line("beside a replay", difference.empty()
                                    ? "start order, placements and ends are equal"
                                    : "not equal; live, then replayed: " + difference);
}

void print_course(const Course& course, std::size_t jobs, const std::string& difference) {
  nlohmann::ordered_json out{{"jobs", jobs},
                             {"starts", course.count(What::started)},
                             {"kills", course.count(What::stopped)},
                             {"ends", course.count(What::done)},
                             {"processes", course.processes},
                             {"failed", course.failed()},
                             {"most_behind_ms", course.most_behind_ms},
                             {"equal", difference.empty()}};
  out["difference"] = nullptr;
  if (!difference.empty()) out["difference"] = difference;
  fmt::print("{}\n", out.dump(2));
}

}  // namespace

int live_jobs(const LiveJobsOptions& options, const std::vector<std::string>& policies,
              const std::string& record, bool json) {
  const JobReplay replay = replay_of(options, policies);
  const std::vector<TraceJob> jobs = excerpt(options);
  const std::vector<StandingBook::Line> rehearsed = rehearse(replay, jobs);
  const Course course = run_here(options, replay, jobs, record);
  const std::string difference =
      first_difference(course.lines, rehearsed, options.for_s * kNanosPerSecond);
  if (json) {
    print_course(course, jobs.size(), difference);
  } else {
    print_summary(options, replay.policy(), course, jobs.size(), difference);
  }
  const bool good = difference.empty() && course.failed() == 0;
  return good ? 0 : static_cast<int>(ErrorKind::goal_missed);
}

std::shared_ptr<LiveJobsOptions> add_live_jobs(CLI::App& live) {
  const auto options = std::make_shared<LiveJobsOptions>();
  const char* const group = "Jobs of a log";
  CLI::Option* jobs = live.add_option("--jobs", options->log,
                                      "run the jobs of a log, each as a process, instead of a "
                                      "scenario");
  jobs->type_name("LOG")->group(group);
  const auto declared = [&](CLI::Option* option) -> CLI::Option& {
    option->needs(jobs)->group(group);
    return *option;
  };
  whole_number(declared(live.add_option("--nodes", options->nodes, "nodes of the cluster")), 1,
               131072)
      .type_name("N");
  whole_number(declared(live.add_option("--gpus-per-node", options->gpus_per_node, "GPUs of each")),
               1, 128)
      .type_name("G");
  one_of(declared(live.add_option("--placement", options->placement, "placement of the jobs")),
         placer_names())
      .capture_default_str();
  one_of(declared(live.add_option("--estimates", options->estimates,
                                  "estimated durations, as in orrery jobs")),
         all_names<EstimateKind>())
      .capture_default_str();
  number(declared(live.add_option("--speed", options->speed, "seconds of the log in one real "
                                                             "second")),
         0.01, 1e6)
      .type_name("X")
      ->capture_default_str();
  whole_number(declared(live.add_option("--begin", options->begin_s, "first second of the "
                                                                    "excerpt")), 0,
               3'153'600'000)
      .type_name("S")
      ->capture_default_str();
  whole_number(declared(live.add_option("--for", options->for_s, "seconds of the "
                                                                "excerpt")), 1,
               3'153'600'000)
      .type_name("S")
      ->capture_default_str();
  return options;
}

}  // namespace orrery::cli
