#include "cli/shared/live_jobs.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/shared/policy_option.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "live/jobs/local_jobs.hpp"
#include "policies/handover/fallback.hpp"
#include "policies/handover/hand_over.hpp"
#include "policies/placement/placer.hpp"
#include "policies/record/recorder.hpp"
#include "policies/record/standing_book.hpp"
#include "policies/run/policy_meter.hpp"
#include "policies/run/registry.hpp"
#include "policies/run/waiting_policy.hpp"
#include "policies/seam/drive.hpp"
#include "sim/replay/job_estimates.hpp"
#include "sim/replay/job_replay.hpp"
#include "traces/jobs/job_log.hpp"
#include "traces/report/report.hpp"
#include "traces/scenario/replay_conditions.hpp"

namespace orrery::cli {
namespace {

using What = StandingBook::Line::What;

constexpr const char* kJobsOfALog = "Jobs of a log";  // title of the options in the help
/// Options of scenarios that a log of jobs has, too.
constexpr std::array<std::string_view, 6> kOfBoth{
    "--policy", "--policy-timeout", "--on-policy-error", "--mode", "--record", "--json"};

/// Decorator of a policy in another process that ends the wait for an answer at the limit of a
/// meter. A policy in this process is not limited: nothing can end its call.
class LimitedPolicy : public Policy {
 public:
  /// Both must outlive the decorator; the meter must measure the calls of the decorator.
  LimitedPolicy(Policy& inner, const PolicyMeter& meter) : inner_(inner), meter_(meter) {
    auto* const waiting = dynamic_cast<WaitingPolicy*>(&inner);
    if (waiting != nullptr) waiting->on_wait([&meter] { return meter.is_overdue(); });
  }

  Needs needs() const override { return inner_.needs(); }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override {
    inner_.start(context, cluster, parameters);
  }
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override {
    try {
      inner_.observe(context, seen, decisions);
    } catch (const AnswerWithdrawn&) {
      meter_.check_limits();  // throws, with the limit in its message
      throw;
    }
  }
  void save(Archive& archive) const override { inner_.save(archive); }
  void load(const Archive& archive) override { inner_.load(archive); }
  bool has_changed() const override { return inner_.has_changed(); }

 private:
  Policy& inner_;
  const PolicyMeter& meter_;
};

/// Policy that schedules the jobs in one world: its calls are measured and limited, and its error
/// ends the run or leaves the run without a policy.
class JobScheduler {
 public:
  /// `rules`: request with the limit of a call and the reaction to an error.
  JobScheduler(const JobReplay& replay, const RunRequest& rules)
      : policy_(scheduler_of(replay)),
        limited_(*policy_, meter_),
        guarded_(limited_, rules.hand_over().fall_back()),
        metered_(guarded_, meter_),
        book_(metered_) {
    meter_.set_rules(
        {.timeout = rules.policy_timeout(), .name = [name = replay.policy()] {
           return fmt::format("the policy '{}'", name);
         }});
  }

  /// Returns the policy that drive() calls.
  StandingBook& book() { return book_; }
  const PolicyMeter& meter() const { return meter_; }
  /// Returns the error after which the run has no policy; empty: none.
  const std::string& failure() const { return guarded_.failure(); }

 private:
  PolicyMeter meter_;
  std::unique_ptr<Policy> policy_;
  LimitedPolicy limited_;
  FallbackPolicy guarded_;
  MeteredPolicy metered_;
  StandingBook book_;
};

/// Results of the live run: the events of the jobs, and figures of the processes and the policy.
struct Course {
  std::vector<StandingBook::Line> lines;
  std::vector<live::LocalJobs::Outcome> outcomes;
  std::uint64_t processes = 0;
  double most_behind_ms = 0;
  HostUse policy_use;          ///< time of the policy's calls
  std::string policy_failure;  ///< error after which the run had no policy; empty: none

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

Course run_here(const LiveJobsOptions& options, const JobReplay& replay, const RunRequest& rules,
                const std::vector<TraceJob>& jobs, const std::string& record) {
  JobScheduler scheduler(replay, rules);
  StandingBook& book = scheduler.book();
  sim::JobEstimates estimates(sim::estimate_choice(replay, 1));
  live::LocalJobs local(cluster_of(replay), jobs,
                        {[&](const TraceJob& job) { return estimates.at_submission(job); },
                         [&](const TraceJob& job, Nanos ran) { estimates.record_end(job, ran); }},
                        {.speed = options.speed, .until = options.for_s * kNanosPerSecond});
  LogHeader header;
  header.set_version(version());
  header.set_mode("jobs");
  *header.mutable_replay() = replay;
  header.set_fall_back(rules.hand_over().fall_back());
  Recorder recorder(local, book, header, {.path = record, .hash = !record.empty()});
  Rng rng = policy_rng(0);
  Context context{rng, {}};
  drive(book, recorder, context);
  recorder.finish_log();
  const std::chrono::duration<double, std::milli> behind = local.most_behind();
  Course course;
  course.lines = book.lines();
  course.outcomes = local.outcomes();
  course.processes = local.processes();
  course.most_behind_ms = behind.count();
  scheduler.meter().fill(course.policy_use);
  course.policy_failure = scheduler.failure();
  return course;
}

std::vector<StandingBook::Line> rehearse(const JobReplay& replay, const RunRequest& rules,
                                         std::vector<TraceJob> jobs) {
  JobScheduler scheduler(replay, rules);
  sim::replay_jobs(std::move(jobs), replay, scheduler.book());
  return scheduler.book().lines();
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
  print_line("policy time", fmt::format("{:.3f} s, the longest call {:.3f} s",
                                        course.policy_use.policy_time_s(),
                                        course.policy_use.policy_time_max_s()));
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
                             {"policy_time_s", course.policy_use.policy_time_s()},
                             {"policy_time_max_s", course.policy_use.policy_time_max_s()},
                             {"policy_failure", nullptr},
                             {"equal", difference.empty()},
                             {"difference", nullptr}};
  if (!course.policy_failure.empty()) out["policy_failure"] = course.policy_failure;
  if (!difference.empty()) out["difference"] = difference;
  fmt::print("{}\n", out.dump(2));
}

/// Returns a request with the limit of a call of the policy and the reaction to its errors.
RunRequest rules_of_jobs(const OperatorOptions& operation) {
  if (hand_over_mode(operation.mode) != HandOverMode::drive) {
    throw Error(ErrorKind::usage,
                fmt::format("--mode: expected drive, because the policy of --jobs starts the jobs, "
                            "found {}; leave --mode out",
                            operation.mode));
  }
  RunRequest rules;
  operation.fill(rules, false);
  return rules;
}

}  // namespace

void check_live_jobs(const CLI::App& live) {
  for (const CLI::Option* option : live.get_options()) {
    const std::string name = option->get_name();
    const bool is_known = option->get_group() == kJobsOfALog ||
                          std::find(kOfBoth.begin(), kOfBoth.end(), name) != kOfBoth.end();
    if (is_known || option->count() == 0) continue;
    throw Error(ErrorKind::usage,
                fmt::format("{0}: expected a scenario, found the jobs of a log (--jobs), for which "
                            "{0} has no meaning; leave {0} out",
                            name));
  }
}

int live_jobs(const LiveJobsOptions& options, const std::vector<std::string>& policies,
              const OperatorOptions& operation, const std::string& record, bool json) {
  const RunRequest rules = rules_of_jobs(operation);
  JobReplay replay = replay_of(options, policies);
  const std::vector<TraceJob> jobs = excerpt(options);
  sim::count_parts_whole(replay, jobs);
  const std::vector<StandingBook::Line> rehearsed = rehearse(replay, rules, jobs);
  const Course course = run_here(options, replay, rules, jobs, record);
  const std::string difference =
      first_difference(course.lines, rehearsed, options.for_s * kNanosPerSecond);
  if (json) {
    print_course(course, jobs.size(), difference);
  } else {
    print_summary(options, replay.policy(), course, jobs.size(), difference);
    if (!course.policy_failure.empty()) {
      fmt::print(stderr, "warning: the policy failed and was disabled: {}\n",
                 course.policy_failure);
    }
  }
  const bool good = difference.empty() && course.failed() == 0;
  return good ? 0 : static_cast<int>(ErrorKind::goal_missed);
}

std::shared_ptr<LiveJobsOptions> add_live_jobs(CLI::App& live) {
  const auto options = std::make_shared<LiveJobsOptions>();
  CLI::Option* jobs = live.add_option("--jobs", options->log,
                                      "run the jobs of a log, each as a process, instead of a "
                                      "scenario");
  jobs->type_name("LOG")->group(kJobsOfALog);
  const auto declared = [&](CLI::Option* option) -> CLI::Option& {
    option->needs(jobs)->group(kJobsOfALog);
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
