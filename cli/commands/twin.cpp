// orrery twin jobs|slurm|kubernetes: forecasts starts and ends of waiting jobs beside a replayed
// log of jobs, a real Slurm or a Kubernetes cluster, and scores the forecasts.
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/commands/twin_run.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/kubernetes_access.hpp"
#include "cli/shared/policy_option.hpp"
#include "cli/shared/replay_options.hpp"
#include "cli/shared/slurm_session.hpp"
#include "cli/shared/twin_output.hpp"
#include "cli/shared/twin_session.hpp"
#include "cli/shared/twin_status.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "live/kubernetes/kubernetes_cluster.hpp"
#include "live/slurm/slurm_cluster.hpp"
#include "policies/placement/placer.hpp"
#include "policies/run/registry.hpp"
#include "policies/run/worker.hpp"
#include "policies/seam/drive.hpp"
#include "policies/seam/static_policy.hpp"
#include "sim/forecast/twin.hpp"
#include "sim/replay/job_replay.hpp"
#include "sim/replay/job_savings.hpp"
#include "traces/scenario/replay_conditions.hpp"

namespace orrery::cli {
namespace {

/// Options of all forms of a queue.
struct TwinOptions {
  double every_s = 0, horizon_s = 24 * 3600, node_away_s = 3600;
  std::uint32_t samples = 24;
  std::string out, metrics, goal = "wait";
  std::vector<std::string> candidates;
  bool json = false;
};

struct TwinTraceOptions : ReplayOptions {
  TwinOptions twin;
};

/// Options of the forms beside a real cluster.
struct TwinClusterOptions {
  TwinOptions twin;
  std::vector<std::string> policies;
  std::string placement = "per-node";
  double read_every_s = 1, for_s = 0;

  std::vector<std::string> all_policies() const { return joined(policies, twin.candidates); }
};

struct TwinSlurmOptions : TwinClusterOptions {
  std::vector<std::string> partitions, accounts;
  std::int64_t lease_s = live::SlurmRules{}.lease_s;
};

struct TwinKubernetesOptions : TwinClusterOptions, KubernetesAccess {};

sim::Twin::Options twin_options(const TwinOptions& given, const JobReplay& replay,
                                const std::vector<std::string>& policies) {
  sim::Twin::Options out;
  out.every = to_nanos(given.every_s);
  out.futures.samples = given.samples;
  out.goal = sim::queue_goal(given.goal);
  out.futures.horizon = to_nanos(given.horizon_s);
  out.node_away = to_nanos(given.node_away_s);
  for (const std::string& policy : policies) {
    if (!is_policy(policy)) {
      throw Error(ErrorKind::usage,
                  fmt::format("--policy, --choose: expected built-in policies, because futures "
                              "are simulated in this process, got {}: {}",
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

// ---- the twin of a queue --------------------------------------------------------------------

/// Twin of a queue with its output: lines, status, metrics and tables. The lines of forecasts begin
/// with their instants: `clock` returns an instant as text.
class QueueTwin {
 public:
  using Clock = std::string (*)(Nanos);

  /// `inner`: policy of the queue. `chosen`: options of the twin without callbacks. All references
  /// must outlive this object.
  QueueTwin(Policy& inner, const TwinOptions& options, sim::Twin::Options chosen, Clock clock,
            TwinStatus& status)
      : options_(options),
        clock_(clock),
        status_(status),
        record_(options.out, 0),
        twin_(inner, connected(std::move(chosen))) {}

  Policy& policy() { return twin_; }
  /// Shows each forecast at once, and prints its line unless the output is JSON.
  void show_at_once() { is_live_ = true; }
  /// Writes status, metrics and tables after the newest forecast, if there is a newer one than in
  /// the call before.
  void show_figures() {
    if (!std::exchange(has_news_, false)) return;
    const sim::TwinReport report = twin_.report();
    TwinFigures figures = figures_of(report, times_of(twin_.forecast_times_s()), newest_);
    record_.write_now(figures);
    record_.write_score(score_csv(report));
    status_.show_figures(std::move(figures));
  }
  /// Shows the score at the end; `heading`: first line of the text.
  void show_end(const std::string& heading) {
    has_news_ = true;
    show_figures();
    status_.show_last();
    const sim::TwinReport report = twin_.report();
    const DecisionTimes times = times_of(twin_.forecast_times_s());
    if (options_.json) {
      fmt::print("{}\n", twin_json(report, times).dump(2));
      return;
    }
    if (!heading.empty()) fmt::print("{}\n", heading);
    print_twin(report, times);
  }

 private:
  sim::Twin::Options connected(sim::Twin::Options out) {
    out.at_choice = [this](const sim::PolicySwitch& choice) {
      show_line(fmt::format("{} {}", clock_(choice.at), choice_text(choice)));
    };
    out.at_forecast = [this](const sim::QueueForecast& forecast) {
      newest_ = forecast;
      has_news_ = true;
      show_line(forecast_line(forecast, clock_(forecast.made)));
      record_.add_goals(forecast.made, goals_of(forecast));
      if (is_live_) show_figures();
    };
    out.at_empty = [this] {
      has_news_ = has_news_ || !newest_.jobs.empty();
      newest_.jobs.clear();
      newest_.node_loss = {};
      if (is_live_) show_figures();
    };
    record_.connect_twin(out);
    return out;
  }
  void show_line(const std::string& line) {
    status_.add_line(line);
    if (!is_live_ || options_.json) return;
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }

  const TwinOptions& options_;
  const Clock clock_;
  TwinStatus& status_;
  TwinRecord record_;
  sim::QueueForecast newest_;
  bool is_live_ = false, has_news_ = false;
  sim::Twin twin_;
};

/// Policy that forwards to a twin, and shows its figures about once a second. observe() throws
/// Interrupted once the twin is to end.
class WatchedTwin : public Policy {
 public:
  /// Both must outlive this object.
  WatchedTwin(QueueTwin& twin, TwinStatus& status) : twin_(twin), status_(status) {}

  Needs needs() const override { return twin_.policy().needs(); }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override {
    twin_.policy().start(context, cluster, parameters);
  }
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override {
    twin_.policy().observe(context, seen, decisions);
    if (status_.is_due()) twin_.show_figures();
    if (status_.is_to_end()) throw Interrupted();
  }
  void save(Archive& archive) const override { twin_.policy().save(archive); }
  void load(const Archive& archive) override { twin_.policy().load(archive); }
  bool has_changed() const override { return twin_.policy().has_changed(); }

 private:
  QueueTwin& twin_;
  TwinStatus& status_;
};

// ---- a job log ------------------------------------------------------------------------------

std::string log_time(Nanos at) { return fmt::format("{:.0f} s:", to_seconds(at)); }

/// Returns the line about the log's own outcome.
std::string recorded_line(const JobsReport& recorded) {
  if (recorded.jobs_completed() == 0) {
    return fmt::format("{:<12}not known: the log has no starts of jobs", "as recorded");
  }
  return fmt::format("{:<12}{} jobs, mean wait {:.1f} s, mean JCT {:.1f} s", "as recorded",
                     recorded.jobs_completed(), recorded.queue_mean_s(), recorded.jct_mean_s());
}

/// Returns the line about the replay; `ran`: nothing if the replay was stopped.
std::string replay_line(const JobReplay& replay, const std::optional<JobsReport>& ran) {
  const std::string of = fmt::format("{:<12}{} nodes x {} GPUs, {}", "cluster", replay.nodes(),
                                     replay.gpus_per_node(), replay.policy());
  if (!ran) return of + ", stopped before the end of the log";
  return fmt::format("{}, {} jobs, mean wait {:.1f} s, mean JCT {:.1f} s", of, ran->jobs_in(),
                     ran->queue_mean_s(), ran->jct_mean_s());
}

int twin_trace(const TwinTraceOptions& options) {
  if (!options.record.empty()) {
    throw Error(ErrorKind::usage,
                "--record: a twin writes no log of observations: leave it out, "
                "or record with orrery jobs");
  }
  JobReplay replay = asked_for(options);
  if (replay.has_power()) {
    throw Error(ErrorKind::usage,
                "power: expected a replay without limits of power, which forecasts do not have: "
                "leave the key out, or replay with orrery jobs");
  }
  const std::vector<std::string> policies = joined(
      options.policies.empty() ? std::vector<std::string>{replay.policy()} : options.policies,
      options.twin.candidates);
  JobLog log = load_log(replay, options);
  sim::count_parts_whole(replay, log.jobs);
  if (replay.estimates().empty()) replay.set_estimates(known_estimates(log.jobs));
  sim::Twin::Options chosen = twin_options(options.twin, replay, policies);
  replay = chosen.active;
  chosen.columns = sim::columns_of_log(log.jobs);
  const StopSignals signals;
  TwinStatus status("twin-jobs", options.twin.metrics, policies);
  const std::unique_ptr<Policy> policy = make_stack(replay);
  QueueTwin twin(*policy, options.twin, std::move(chosen), log_time, status);
  WatchedTwin watched(twin, status);
  const JobsReport recorded =
      sim::recorded_outcome(log.jobs, replay.nodes() * replay.gpus_per_node()).report;
  std::optional<JobsReport> ran;
  try {
    ran = sim::replay_jobs(std::move(log.jobs), replay, watched);
  } catch (const Interrupted&) {
    status.add_line("the replay was stopped");
  }
  twin.show_end(replay_line(replay, ran) + "\n" + recorded_line(recorded));
  return 0;
}

// ---- a cluster ------------------------------------------------------------------------------

live::QueueCluster::Options reading_options(const TwinClusterOptions& options, TwinStatus& status) {
  const auto duration = [](double s) { return std::chrono::nanoseconds(to_nanos(s)); };
  live::QueueCluster::Options out;
  out.every = duration(options.read_every_s);
  if (options.for_s > 0) out.until = duration(options.for_s);
  out.is_quiet = true;
  out.stopped = [&status] { return status.is_to_end(); };
  out.tell = [&status](const std::string& text) {
    fmt::print(stderr, "orrery: {}\n", text);
    status.add_line(text);
  };
  return out;
}

/// Forecasts the queue of a cluster, in racks as live::describe_nodes(), until the run ends, and
/// shows the score.
int follow_cluster(const TwinClusterOptions& options, live::QueueCluster& cluster,
                   std::uint32_t nodes_per_rack, TwinStatus& status) {
  JobReplay replay;
  live::describe_nodes(cluster.nodes(), nodes_per_rack, replay);
  replay.set_placement(options.placement);
  sim::Twin::Options chosen = twin_options(options.twin, replay, options.all_policies());
  chosen.columns = sim::columns_of_request;
  StaticPolicy observer;  // the cluster's own scheduler decides
  QueueTwin twin(observer, options.twin, std::move(chosen), clock_time, status);
  twin.show_at_once();
  Rng rng = policy_rng(0);
  Context context{rng, {}};
  drive(twin.policy(), cluster, context);
  twin.show_end({});
  return 0;
}

int twin_slurm(const TwinSlurmOptions& options) {
  const StopSignals signals;
  TwinStatus status("twin-slurm", options.twin.metrics, options.all_policies());
  live::SlurmCluster::Options chosen{reading_options(options, status), {}};
  chosen.rules.partitions = {options.partitions.begin(), options.partitions.end()};
  chosen.rules.accounts = {options.accounts.begin(), options.accounts.end()};
  chosen.rules.acts = false;
  chosen.rules.lease_s = options.lease_s;
  const auto commands = live::installed_slurm(kSlurmPatience);
  live::SlurmCluster cluster(*commands, chosen);
  return follow_cluster(options, cluster, 0, status);
}

int twin_kubernetes(const TwinKubernetesOptions& options) {
  const StopSignals signals;
  TwinStatus status("twin-kubernetes", options.twin.metrics, options.all_policies());
  live::KubernetesCluster::Options chosen{reading_options(options, status)};
  chosen.acts = false;
  const auto adapter = live::start_adapter(options.adapter_program());
  live::KubernetesCluster cluster(*adapter, chosen);
  return follow_cluster(options, cluster, cluster.nodes_per_rack(), status);
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
  number(*command.add_option("--node-away", options.node_away_s,
                             "seconds after which a node is back, in the cost of losing one"),
         1, 1e9)
      .type_name("S")
      ->capture_default_str();
  command
      .add_option("--choose", options.candidates,
                  "candidates that the reported choice has beside the first of --policy; the same "
                  "as further names there")
      ->type_name("P,P")
      ->delimiter(',')
      ->allow_extra_args(false);
  one_of(*command.add_option("--by", options.goal,
                             "goal of the choice among several policies, which is only reported"),
         sim::queue_goal_names())
      .capture_default_str();
  command
      .add_option("--metrics", options.metrics,
                  "write metrics for Prometheus about once a second, or serve them at a socket")
      ->type_name("FILE|unix:PATH");
  add_tables(command, options.out);
  command.add_flag("--json", options.json, "print one JSON object at the end");
}

/// Declares the options of the forms beside a real cluster; `scheduler`: name of its scheduler.
void declare_cluster(CLI::App& command, TwinClusterOptions& options, const char* scheduler) {
  options.twin.every_s = 60;
  declare_twin(command, options.twin);
  command
      .add_option("--policy", options.policies,
                  fmt::format("policy that is closest to that of {}, then alternatives, as in "
                              "orrery jobs",
                              scheduler))
      ->type_name("P")
      ->delimiter(',')
      ->required();
  one_of(*command.add_option("--placement", options.placement, "placement of the jobs"),
         placer_names())
      .capture_default_str();
  number(*command.add_option("--read-every", options.read_every_s,
                             "seconds between two readings of the queue"),
         0.1, 60)
      .type_name("S")
      ->capture_default_str();
  number(
      *command.add_option("--for", options.for_s, "seconds of the run; without it until a signal"),
      0.1, 1e9)
      .type_name("S");
}

/// Declares an option that can be repeated.
CLI::Option* repeated(CLI::App& command, const char* name, std::vector<std::string>& into,
                      const char* help, const char* type) {
  return command.add_option(name, into, help)->type_name(type)->allow_extra_args(false);
}

void add_twin_slurm(CLI::App& twins, Action& chosen) {
  const auto options = std::make_shared<TwinSlurmOptions>();
  CLI::App* command =
      twins.add_subcommand("slurm", "beside the Slurm whose commands are in PATH; sends nothing");
  declare_cluster(*command, *options, "Slurm");
  repeated(*command, "--partition", options->partitions, "forecast the jobs of this partition",
           "P");
  repeated(*command, "--account", options->accounts, "forecast the jobs of this account only", "A");
  whole_number(*command->add_option("--lease", options->lease_s,
                                    "lease of orrery cluster slurm beside this command; a later "
                                    "begin time of a job counts as its user's"),
               4, 86400)
      .type_name("S")
      ->capture_default_str();
  add_examples(*command, {"orrery twin slurm --policy conservative --partition gpu",
                          "orrery twin slurm --policy conservative,srtf --partition gpu --every 30 "
                          "--json --for 3600"});
  command->callback([options, &chosen] { chosen = [options] { return twin_slurm(*options); }; });
}

void add_twin_kubernetes(CLI::App& twins, Action& chosen) {
  const auto options = std::make_shared<TwinKubernetesOptions>();
  CLI::App* command =
      twins.add_subcommand("kubernetes",
                           "beside a Kubernetes cluster, whose gangs wait as for orrery cluster "
                           "kubernetes; writes nothing");
  declare_cluster(*command, *options, "the cluster's scheduler");
  repeated(*command, "--namespace,--partition", options->namespaces,
           "forecast the gangs of this namespace; repeat for several", "NS")
      ->required();
  options->add_access(*command);
  add_examples(*command, {"orrery twin kubernetes --policy easy --namespace ml",
                          "orrery twin kubernetes --policy easy,srtf --namespace ml --every 30 "
                          "--json --for 3600"});
  command->callback(
      [options, &chosen] { chosen = [options] { return twin_kubernetes(*options); }; });
}

}  // namespace

void add_twin(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand(
      "twin",
      "forecast a live training run, or the waiting jobs of a cluster, and score the forecasts");
  command->require_subcommand(0, 1);
  const auto trace = std::make_shared<TwinTraceOptions>();
  CLI::App* jobs = command->add_subcommand("jobs", "beside the replay of a job log");
  declare_replay(*jobs, trace);
  trace->twin.every_s = 3600;
  declare_twin(*jobs, trace->twin);
  add_examples(*jobs, {"orrery twin jobs sacct.txt --nodes 64 --gpus-per-node 8 --policy easy",
                       "orrery twin jobs trace.csv --nodes 16 --gpus-per-node 8 --policy "
                       "easy,srtf,las --every 600 --out twin"});
  jobs->callback([trace, &chosen] { chosen = [trace] { return twin_trace(*trace); }; });
  add_twin_slurm(*command, chosen);
  add_twin_kubernetes(*command, chosen);
  add_twin_run(*command, chosen);  // last: subcommands begin with the examples of the command
}

}  // namespace orrery::cli
