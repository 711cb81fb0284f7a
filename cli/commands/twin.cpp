// orrery twin: forecasts starts and ends of waiting jobs beside a replayed job log or a real Slurm,
// and scores the forecasts.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/output_file.hpp"
#include "cli/shared/policy_option.hpp"
#include "cli/shared/replay_options.hpp"
#include "cli/shared/slurm_session.hpp"
#include "cli/shared/twin_output.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "live/slurm/slurm_cluster.hpp"
#include "policies/placement/placer.hpp"
#include "policies/run/registry.hpp"
#include "policies/run/worker.hpp"
#include "policies/seam/drive.hpp"
#include "policies/seam/static_policy.hpp"
#include "sim/forecast/twin.hpp"
#include "sim/replay/job_replay.hpp"
#include "traces/scenario/replay_conditions.hpp"

namespace orrery::cli {
namespace {

/// Options that both forms have.
struct TwinOptions {
  double every_s = 0, horizon_s = 24 * 3600;
  std::uint32_t samples = 24;
  std::string out, goal = "wait";
  bool json = false;
};

struct TwinTraceOptions : ReplayOptions {
  TwinOptions twin;
};

struct TwinSlurmOptions {
  TwinOptions twin;
  std::vector<std::string> policies, partitions, accounts;
  std::string placement = "per-node";
  double read_every_s = 1, for_s = 0;
  std::int64_t lease_s = live::SlurmRules{}.lease_s;
};

/// Collector of the known forecasts and of the times of the forecasts.
class TwinRecord {
 public:
  /// Connects the callbacks of the twin; this object must outlive it.
  void connect(sim::Twin::Options& options, bool with_table) {
    options.clock_s = [this] {
      HostUse host;
      meter_.fill(host);
      return host.wall_s();
    };
    if (!with_table) return;
    table_ = sim::known_forecasts_header();
    options.at_known = [this](const sim::KnownForecast& known) { sim::write_known(known, table_); };
  }
  const std::string& table() const { return table_; }

 private:
  HostMeter meter_;
  std::string table_;
};

DecisionTimes times_of(std::vector<double> seconds) {
  if (seconds.empty()) return {};
  std::sort(seconds.begin(), seconds.end());
  const auto at = [&seconds](double share) {
    return 1e3 * seconds[static_cast<std::size_t>(share * static_cast<double>(seconds.size() - 1))];
  };
  return {at(0.5), at(0.99), at(1)};
}

void show(const TwinOptions& options, const sim::Twin& twin, const TwinRecord& record) {
  const sim::TwinReport report = twin.report();
  const DecisionTimes times = times_of(twin.forecast_times_s());
  if (!options.out.empty()) {
    const std::filesystem::path folder(options.out);
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    if (failed) {
      throw Error(ErrorKind::environment,
                  fmt::format("cannot make the folder {}: {}", options.out, failed.message()));
    }
    write_file((folder / "forecasts.csv").string(), record.table());
    write_file((folder / "score.csv").string(), score_csv(report));
  }
  if (options.json) {
    fmt::print("{}\n", twin_json(report, times));
  } else {
    print_twin(report, times);
  }
}

sim::Twin::Options twin_options(const TwinOptions& given, const JobReplay& replay,
                                const std::vector<std::string>& policies) {
  sim::Twin::Options out;
  out.every = to_nanos(given.every_s);
  out.futures.samples = given.samples;
  out.goal = sim::queue_goal(given.goal);
  out.futures.horizon = to_nanos(given.horizon_s);
  for (const std::string& policy : policies) {
    if (!is_policy(policy)) {
      throw Error(ErrorKind::usage,
                  fmt::format("--policy {}: expected a built-in policy, because futures are "
                              "simulated in this process: {}",
                              policy, no_such_policy(policy)));
    }
    JobReplay each = replay;
    each.set_policy(policy);
    out.alternatives.push_back(std::move(each));
  }
  out.active = std::move(out.alternatives.front());
  out.alternatives.erase(out.alternatives.begin());
  return out;
}

// ---- a job log ------------------------------------------------------------------------------

int twin_trace(const TwinTraceOptions& options) {
  if (!options.record.empty()) {
    throw Error(ErrorKind::usage,
                "--record: a twin writes no log of observations: leave it out, "
                "or record with orrery jobs");
  }
  JobReplay replay = asked_for(options);
  const std::vector<std::string> policies =
      options.policies.empty() ? std::vector<std::string>{replay.policy()} : options.policies;
  JobLog log = load_log(replay, options);
  sim::count_parts_whole(replay, log.jobs);
  if (replay.estimates().empty()) replay.set_estimates(known_estimates(log.jobs));
  sim::Twin::Options chosen = twin_options(options.twin, replay, policies);
  replay = chosen.active;
  chosen.columns = sim::columns_of_log(log.jobs);
  TwinRecord record;
  record.connect(chosen, !options.twin.out.empty());
  const std::unique_ptr<Policy> policy = make_stack(replay);
  sim::Twin twin(*policy, chosen);
  const JobsReport ran = sim::replay_jobs(std::move(log.jobs), replay, twin);
  if (!options.twin.json) {
    fmt::print("{:<12}{} nodes x {} GPUs, {}, {} jobs, mean wait {:.1f} s, mean JCT {:.1f} s\n",
               "cluster", replay.nodes(), replay.gpus_per_node(), replay.policy(), ran.jobs_in(),
               ran.queue_mean_s(), ran.jct_mean_s());
  }
  show(options.twin, twin, record);
  return 0;
}

// ---- a Slurm --------------------------------------------------------------------------------

/// Returns the columns of a job of Slurm, whose time limit is the estimate that policies see.
sim::JobColumns columns_of_slurm(const JobSpec& job) {
  sim::JobColumns columns = sim::columns_of_spec(job);
  columns.limit_s = job.estimate / kNanosPerSecond;
  return columns;
}

live::SlurmCluster::Options cluster_options(const TwinSlurmOptions& options) {
  const auto duration = [](double s) { return std::chrono::nanoseconds(to_nanos(s)); };
  live::SlurmCluster::Options out;
  out.rules.partitions = {options.partitions.begin(), options.partitions.end()};
  out.rules.accounts = {options.accounts.begin(), options.accounts.end()};
  out.rules.acts = false;
  out.rules.lease_s = options.lease_s;
  out.every = duration(options.read_every_s);
  if (options.for_s > 0) out.until = duration(options.for_s);
  out.is_quiet = true;
  out.stopped = &StopSignals::is_stopped;
  out.tell = [](const std::string& text) { fmt::print(stderr, "orrery: {}\n", text); };
  return out;
}

int twin_slurm(const TwinSlurmOptions& options) {
  const StopSignals signals;
  const auto commands = live::installed_slurm(kSlurmPatience);
  live::SlurmCluster cluster(*commands, cluster_options(options));
  JobReplay replay;
  replay.set_nodes(cluster.nodes().nodes());
  replay.set_gpus_per_node(cluster.nodes().gpus_per_node());
  replay.set_placement(options.placement);
  sim::Twin::Options chosen = twin_options(options.twin, replay, options.policies);
  chosen.columns = columns_of_slurm;
  if (!options.twin.json) {
    chosen.at_choice = [](const sim::PolicySwitch& choice) {
      fmt::print("{} {}\n", clock_time(choice.at), choice_text(choice));
    };
    chosen.at_forecast = [](const sim::QueueForecast& forecast) {
      fmt::print("{}\n", forecast_line(forecast, clock_time(forecast.made)));
      std::fflush(stdout);
    };
  }
  TwinRecord record;
  record.connect(chosen, !options.twin.out.empty());
  StaticPolicy observer;  // Slurm decides
  sim::Twin twin(observer, chosen);
  Rng rng = policy_rng(0);
  Context context{rng, {}};
  drive(twin, cluster, context);
  show(options.twin, twin, record);
  return 0;
}

// ---- options --------------------------------------------------------------------------------

void declare_twin(CLI::App& command, TwinOptions& options) {
  number(*command.add_option("--every", options.every_s, "seconds between two forecasts"), 1, 1e9)
      .type_name("S")
      ->capture_default_str();
  number(*command.add_option("--horizon", options.horizon_s,
                             "length of the simulated futures in seconds"),
         60, 1e9)
      .type_name("S")
      ->capture_default_str();
  whole_number(*command.add_option("--samples", options.samples, "futures of each forecast"), 2,
               1000)
      .type_name("N")
      ->capture_default_str();
  one_of(*command.add_option("--by", options.goal,
                             "goal of the choice among several policies, which is only reported"),
         sim::queue_goal_names())
      .capture_default_str();
  command
      .add_option("--out", options.out,
                  "write tables: forecasts.csv (each forecast beside its outcome), score.csv")
      ->type_name("DIR");
  command.add_flag("--json", options.json, "print one JSON object at the end");
}

void declare_slurm(CLI::App& command, const std::shared_ptr<TwinSlurmOptions>& options) {
  options->twin.every_s = 60;
  declare_twin(command, options->twin);
  command
      .add_option("--policy", options->policies,
                  "policy that is closest to Slurm's, then alternatives, as in orrery jobs")
      ->type_name("P")
      ->delimiter(',')
      ->required();
  const auto repeated = [&command](const char* name, std::vector<std::string>& into,
                                   const char* help, const char* type) {
    command.add_option(name, into, help)->type_name(type)->allow_extra_args(false);
  };
  repeated("--partition", options->partitions, "forecast the jobs of this partition", "P");
  repeated("--account", options->accounts, "forecast the jobs of this account only", "A");
  one_of(*command.add_option("--placement", options->placement, "placement of the jobs"),
         placer_names())
      .capture_default_str();
  number(*command.add_option("--read-every", options->read_every_s,
                             "seconds between two readings of the queue"),
         0.1, 60)
      .type_name("S")
      ->capture_default_str();
  whole_number(*command.add_option("--lease", options->lease_s,
                                   "lease of orrery cluster slurm beside this command; a later "
                                   "begin time of a job counts as its user's"),
               4, 86400)
      .type_name("S")
      ->capture_default_str();
  number(
      *command.add_option("--for", options->for_s, "seconds of the run; without it until a signal"),
      0.1, 1e9)
      .type_name("S");
}

}  // namespace

void add_twin(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand(
      "twin", "forecast starts and ends of waiting jobs beside a cluster, and score the forecasts");
  command->require_subcommand(1);
  const auto trace = std::make_shared<TwinTraceOptions>();
  CLI::App* jobs = command->add_subcommand("jobs", "beside the replay of a job log");
  declare_replay(*jobs, trace);
  trace->twin.every_s = 3600;
  declare_twin(*jobs, trace->twin);
  add_examples(*jobs, {"orrery twin jobs sacct.txt --nodes 64 --gpus-per-node 8 --policy easy",
                       "orrery twin jobs trace.csv --nodes 16 --gpus-per-node 8 --policy "
                       "easy,srtf,las --every 600 --out twin"});
  jobs->callback([trace, &chosen] { chosen = [trace] { return twin_trace(*trace); }; });
  const auto slurm = std::make_shared<TwinSlurmOptions>();
  CLI::App* beside = command->add_subcommand(
      "slurm", "beside the Slurm whose commands are in PATH; sends nothing");
  declare_slurm(*beside, slurm);
  add_examples(*beside, {"orrery twin slurm --policy easy --partition gpu",
                         "orrery twin slurm --policy easy,srtf --partition gpu --every 30 --json "
                         "--for 3600"});
  beside->callback([slurm, &chosen] { chosen = [slurm] { return twin_slurm(*slurm); }; });
}

}  // namespace orrery::cli
