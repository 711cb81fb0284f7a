// orrery replay: feeds a recorded log to the same policies and compares their decisions, or
// simulates the jobs of a recorded queue under other policies.
#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/shared/choice_option.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/log_note.hpp"
#include "cli/shared/output_file.hpp"
#include "cli/shared/policy_option.hpp"
#include "core/error.hpp"
#include "policies/record/log_reader.hpp"
#include "policies/run/replay.hpp"
#include "sim/forecast/recorded_queue.hpp"
#include "traces/files/csv.hpp"
#include "traces/report/report.hpp"

namespace orrery::cli {
namespace {

struct ReplayLogOptions {
  std::string log;
  std::vector<std::string> overrides, policies, under;
  std::string differences, courses;
  bool json = false;
};

std::string as_json(const ReplayResult& result) {
  nlohmann::ordered_json out;
  out["calls"] = result.calls;
  out["decisions"] = result.decisions;
  out["decision_trace_sha256"] = result.decision_trace_sha256;
  out["identical"] = result.first_difference.empty();
  out["states_compared"] = result.states_compared;
  out["first_difference"] = nullptr;
  if (!result.first_difference.empty()) out["first_difference"] = result.first_difference;
  return out.dump(2);
}

ReplayResult result_of(const ReplayLogOptions& options) {
  if (!options.policies.empty() && !options.overrides.empty()) {
    throw Error(ErrorKind::usage,
                "--set changes the policies of the log: leave --set or --policy "
                "out");
  }
  LogReader log(options.log);
  LogHeader header = read_header(log);
  print_log_note(options.log, header);
  if (!options.policies.empty()) {
    return replay_log(options.log, *log_policies(options.policies, header));
  }
  if (!header.has_choice()) return replay_log(options.log, options.overrides);
  for (const std::string& change : options.overrides) header.mutable_replay()->add_set(change);
  return replay_log(options.log, *recorded_scheduler(header));
}

int replay(const ReplayLogOptions& options) {
  const ReplayResult result = result_of(options);
  const bool identical = result.first_difference.empty();
  if (options.json) {
    fmt::print("{}\n", as_json(result));
  } else if (identical) {
    fmt::print("identical: {} calls, {} decisions, trace {}\n", result.calls, result.decisions,
               result.decision_trace_sha256);
    if (!result.states_compared) {
      fmt::print("states of the policies not compared: the log has an older format\n");
    }
  }
  if (identical) return 0;
  fmt::print(stderr, "{}: first difference: {}\n", options.log, result.first_difference);
  return static_cast<int>(ErrorKind::goal_missed);
}

// ---- under other policies -------------------------------------------------------------------

/// Course of a recorded queue under one policy.
struct UnderPolicy {
  std::string policy;
  sim::QueueCourse course;
  std::vector<sim::StartDifference> differences;

  /// Returns the instant until which the record holds; kNever: all of it.
  Nanos holds_until() const { return differences.empty() ? kNever : differences.front().at(); }
};

std::string instant(Nanos at) {
  return at == kNever ? "never" : fmt::format("{:.3f} s", to_seconds(at));
}

std::vector<UnderPolicy> simulate_under(const ReplayLogOptions& options,
                                        const sim::RecordedQueue& queue) {
  std::vector<UnderPolicy> out;
  for (const std::string& policy : options.under) {
    check_policy_name(policy);
    JobReplay replay = queue.replay();
    replay.set_policy(policy);
    for (const std::string& change : options.overrides) replay.add_set(change);
    sim::QueueCourse course = queue.simulate_under(*scheduler_of(replay));
    std::vector<sim::StartDifference> differences = queue.differences(course);
    out.push_back({policy, std::move(course), std::move(differences)});
  }
  return out;
}

constexpr Nanos kTableUnit = kNanosPerSecond / 1000;

/// Returns an instant in seconds for a table; empty for kNever.
std::string seconds_field(Nanos at) {
  return at == kNever ? std::string()
                      : fmt::format("{:.3f}", to_seconds(sim::rounded_to(at, kTableUnit)));
}

/// The time with GPUs is that between the instants of the table, so that jobs which end together
/// there also do if the table is simulated.
void write_course(const std::string& name, const sim::QueueCourse& course, std::string& text) {
  for (const sim::JobInQueue& job : course.jobs) {
    fmt::format_to(
        std::back_inserter(text), "{},{},{},{},{},{},{},{},{},{},{},{}\n", name,
        csv_field(job.spec.name), job.spec.gpus, csv_field(job.spec.pool), csv_field(job.spec.user),
        seconds_field(job.spec.estimate), seconds_field(job.spec.submit),
        seconds_field(job.arrived), job.starts.empty() ? "" : seconds_field(job.starts.front()),
        seconds_field(job.end), seconds_field(job.served_in(kTableUnit)), job.starts.size());
  }
}

std::string courses_csv(const sim::QueueCourse& recorded, const std::vector<UnderPolicy>& all) {
  std::string text =
      "policy,job_id,gpus,vc,user,estimate_s,submit_s,arrived_s,start_s,end_s,served_s,starts\n";
  write_course("recorded", recorded, text);
  for (const UnderPolicy& each : all) write_course(each.policy, each.course, text);
  return text;
}

std::string differences_csv(const sim::RecordedQueue& queue, const std::vector<UnderPolicy>& all) {
  std::string text =
      "policy,job_id,gpus,start,recorded_start_s,simulated_start_s,competing_event,distance_s\n";
  for (const UnderPolicy& under : all) {
    for (const sim::StartDifference& each : under.differences) {
      const JobSpec& spec = queue.recorded().jobs[each.job].spec;
      fmt::format_to(std::back_inserter(text), "{},{},{},{},{},{},{},{}\n", under.policy,
                     csv_field(spec.name), spec.gpus, each.start, seconds_field(each.recorded),
                     seconds_field(each.simulated), csv_field(each.nearest.what),
                     seconds_field(each.nearest.distance));
    }
  }
  return text;
}

std::string describe(const sim::RecordedQueue& queue, const sim::StartDifference& each) {
  const std::string nearest =
      each.nearest.what.empty() ? "no competing event"
                                : fmt::format("nearest competing event: {}, {:.3f} s away",
                                              each.nearest.what, to_seconds(each.nearest.distance));
  return fmt::format("job {}, start {}: recorded {}, simulated {}; {}",
                     queue.recorded().jobs[each.job].spec.name, each.start, instant(each.recorded),
                     instant(each.simulated), nearest);
}

void print_under(const sim::RecordedQueue& queue, const std::vector<UnderPolicy>& all) {
  constexpr std::size_t kShown = 5;
  const sim::QueueCourse& recorded = queue.recorded();
  fmt::print("{:<12}{} on {} nodes x {} GPUs, recorded under {}\n", "jobs",
             grouped(recorded.jobs.size()), queue.replay().nodes(), queue.replay().gpus_per_node(),
             queue.replay().policy());
  if (recorded.unended() > 0) {
    fmt::print("{:<12}{}: each keeps its GPUs, and waits count, until the end of the log at {}\n",
               "not ended", grouped(recorded.unended()), instant(recorded.end));
  }
  if (queue.undecided() > 0) {
    fmt::print("{:<12}{} starts were no decision of {}; below, policies decide them\n", "undecided",
               grouped(queue.undecided()), queue.replay().policy());
  }
  fmt::print("\n{:<24}{:>16}{:>16}\n", "", "mean wait s", "other starts");
  fmt::print("{:<24}{:>16.1f}\n", "recorded", recorded.mean_wait_s());
  for (const UnderPolicy& each : all) {
    fmt::print("{:<24}{:>16.1f}{:>16}\n", each.policy, each.course.mean_wait_s(),
               grouped(each.differences.size()));
  }
  for (const UnderPolicy& under : all) {
    if (under.differences.empty()) {
      fmt::print("\n{}: no start differs: all of the log is recorded\n", under.policy);
      continue;
    }
    fmt::print("\n{}: recorded until {}, simulated from there\n", under.policy,
               instant(under.holds_until()));
    for (std::size_t i = 0; i < std::min(kShown, under.differences.size()); ++i) {
      fmt::print("  {}\n", describe(queue, under.differences[i]));
    }
    if (under.differences.size() <= kShown) continue;
    fmt::print("  and {} more: --differences OUT.csv writes all\n",
               grouped(under.differences.size() - kShown));
  }
}

/// Object of one policy; `holds_until` kNever: no difference.
nlohmann::ordered_json under_json(const std::string& policy, Nanos holds_until) {
  nlohmann::ordered_json out{{"policy", policy}, {"recorded_until_s", nullptr}};
  if (holds_until != kNever) out["recorded_until_s"] = to_seconds(holds_until);
  return out;
}

int replay_queue(const ReplayLogOptions& options) {
  const sim::RecordedQueue queue(options.log);
  const std::vector<UnderPolicy> all = simulate_under(options, queue);
  if (!options.differences.empty()) write_file(options.differences, differences_csv(queue, all));
  if (!options.courses.empty()) write_file(options.courses, courses_csv(queue.recorded(), all));
  if (!options.json) {
    print_under(queue, all);
    return 0;
  }
  nlohmann::ordered_json out{{"jobs", queue.recorded().jobs.size()},
                             {"jobs_not_ended", queue.recorded().unended()},
                             {"starts_undecided", queue.undecided()},
                             {"recorded_policy", queue.replay().policy()},
                             {"recorded_wait_mean_s", queue.recorded().mean_wait_s()},
                             {"under", nlohmann::ordered_json::array()}};
  for (const UnderPolicy& each : all) {
    nlohmann::ordered_json row = under_json(each.policy, each.holds_until());
    row["wait_mean_s"] = each.course.mean_wait_s();
    row["other_starts"] = each.differences.size();
    out["under"].push_back(std::move(row));
  }
  fmt::print("{}\n", out.dump(2));
  return 0;
}

/// Finds for each policy the first decision that the log of a training run does not have.
int replay_training(const ReplayLogOptions& options, const LogHeader& header) {
  if (!options.differences.empty() || !options.courses.empty() || !options.overrides.empty()) {
    throw Error(ErrorKind::usage,
                fmt::format("--differences, --courses and --set with --under: expected the log of "
                            "a queue of jobs, got that of a training run, {}: leave them out",
                            options.log));
  }
  nlohmann::ordered_json out{{"under", nlohmann::ordered_json::array()}};
  for (const std::string& policy : options.under) {
    const ReplayResult result = replay_log(options.log, *log_policies({policy}, header));
    const Nanos at = result.differs_at;
    const std::string command = fmt::format("orrery simulate --from {}@{:.9g}s --policy {}",
                                            options.log, to_seconds(at), policy);
    if (options.json) {
      out["under"].push_back(under_json(policy, at));
      if (at != kNever) out["under"].back()["simulate"] = command;
    } else if (at == kNever) {
      fmt::print("{}: no decision differs: all of the log is recorded\n", policy);
    } else {
      fmt::print("{}: recorded until {}, simulated from there by\n  {}\n", policy, instant(at),
                 command);
    }
  }
  if (options.json) fmt::print("{}\n", out.dump(2));
  return 0;
}

int replay_under(const ReplayLogOptions& options) {
  LogReader log(options.log);
  const LogHeader header = read_header(log);
  print_log_note(options.log, header);
  return header.has_replay() ? replay_queue(options) : replay_training(options, header);
}

void declare_under(CLI::App& command, ReplayLogOptions& options) {
  CLI::Option* const under =
      command
          .add_option("--under", options.under,
                      "simulate the jobs of a recorded queue under these policies instead, and "
                      "compare with the record; of a training run, say until when the record holds")
          ->type_name("P")
          ->delimiter(',')
          ->excludes("--policy");
  command
      .add_option("--differences", options.differences,
                  "write each start that differs, with the nearest competing event")
      ->type_name("CSV")
      ->needs(under);
  command
      .add_option("--courses", options.courses,
                  "write the course of each job, recorded and under each policy: arrival, first "
                  "start, end and time with GPUs")
      ->type_name("CSV")
      ->needs(under);
}

}  // namespace

void add_replay(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<ReplayLogOptions>();
  CLI::App* command = app.add_subcommand("replay", "feed a recorded log to the same policies");
  command->add_option("LOG", options->log, "log that --record wrote")->required();
  command->add_flag("--json", options->json, "print one JSON object");
  command
      ->add_option("--set", options->overrides,
                   "change one policy parameter: predictive-rebalance.gain_threshold=0.1")
      ->type_name("POLICY.PARAMETER=VALUE")
      ->allow_extra_args(false);
  add_policy_option(*command, options->policies);
  declare_under(*command, *options);
  add_examples(*command, {"orrery simulate train.yaml --record train.log",
                          "orrery replay train.log --policy mine.py:Mine",
                          "orrery replay train.log --set predictive-rebalance.gain_threshold=0.1",
                          "orrery replay queue.log --under easy,srtf --differences starts.csv"});
  command->callback([options, &chosen] {
    chosen = [options] {
      return options->under.empty() ? replay(*options) : replay_under(*options);
    };
  });
}

}  // namespace orrery::cli
