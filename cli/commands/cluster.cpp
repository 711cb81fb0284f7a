// orrery cluster slurm: lets a queue policy act on a real Slurm, or watch it.
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/operator.hpp"
#include "cli/shared/policy_option.hpp"
#include "cli/shared/slurm_session.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "live/slurm/slurm_cluster.hpp"
#include "policies/handover/hand_over.hpp"
#include "policies/placement/placer.hpp"
#include "policies/record/recorder.hpp"
#include "policies/run/complete_log.hpp"
#include "policies/seam/drive.hpp"
#include "traces/report/report.hpp"

namespace orrery::cli {
namespace {

struct SlurmOptions {
  std::vector<std::string> partitions, accounts, changes;
  std::string policy, placement = "per-node", record;
  OperatorOptions operation;
  double every_s = 1, for_s = 0;
  std::int64_t lease_s = 20, patience_s = 60;
  std::uint32_t per_minute = 0;
  bool json = false;
};

std::chrono::nanoseconds seconds(double s) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(s * 1e9));
}

/// Policy that forwards to another policy and prints each decision with Slurm's names.
class PrintedPolicy : public Policy {
 public:
  PrintedPolicy(Policy& inner, const live::SlurmCluster& cluster, const char* start,
                const char* stop)
      : inner_(inner), cluster_(cluster), start_(start), stop_(stop) {}

  Needs needs() const override { return inner_.needs(); }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override {
    inner_.start(context, cluster, parameters);
  }
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override {
    const std::size_t before = decisions.items().size();
    inner_.observe(context, seen, decisions);
    for (std::size_t i = before; i < decisions.items().size(); ++i) {
      print_decision(decisions.items()[i], seen.now);
    }
  }
  void save(Archive& archive) const override { inner_.save(archive); }
  void load(const Archive& archive) override { inner_.load(archive); }
  bool has_changed() const override { return inner_.has_changed(); }

 private:
  void print_decision(const Decision& decision, Nanos now) const {
    const auto* assign = std::get_if<Assign>(&decision.what);
    if (assign == nullptr) return;
    const std::string id = cluster_.id_of(assign->job);
    if (assign->is_release()) {
      fmt::print("{} {} job {}: {}\n", clock_time(now), stop_, id, decision.why);
    } else {
      fmt::print("{} {} job {} on {}: {}\n", clock_time(now), start_, id,
                 fmt::join(cluster_.nodes().names_of(assign->gpus), ","), decision.why);
    }
    std::fflush(stdout);
  }

  Policy& inner_;
  const live::SlurmCluster& cluster_;
  const char* const start_;
  const char* const stop_;
};

void check(const SlurmOptions& options) {
  if (options.partitions.empty() && options.accounts.empty()) {
    throw Error(ErrorKind::usage,
                "expected the jobs that the policy manages, got none: give "
                "--partition P or --account A");
  }
  if (static_cast<double>(options.lease_s) < 4 * options.every_s) {
    throw Error(ErrorKind::usage,
                fmt::format("--lease: expected at least four times --every ({:g} s), got {} s",
                            options.every_s, options.lease_s));
  }
  RunRequest checked;
  options.operation.fill(checked, false);
  check_policy_name(options.policy);
}

live::SlurmCluster::Options cluster_options(const SlurmOptions& options,
                                            const std::function<bool()>& halted) {
  const HandOverMode mode = hand_over_mode(options.operation.mode);
  live::SlurmCluster::Options out;
  out.rules.partitions = {options.partitions.begin(), options.partitions.end()};
  out.rules.accounts = {options.accounts.begin(), options.accounts.end()};
  out.rules.acts = mode != HandOverMode::shadow;
  out.rules.lease_s = options.lease_s;
  out.rules.patience_s = options.patience_s;
  out.rules.owner = fmt::format("orrery:{}", getpid());
  out.every = seconds(options.every_s);
  if (options.for_s > 0) out.until = seconds(options.for_s);
  out.per_minute = options.per_minute;
  out.is_quiet = mode == HandOverMode::shadow;
  out.has_ticks = mode == HandOverMode::approve;
  out.stopped = &StopSignals::is_stopped;
  out.halted = halted;
  out.tell = [](const std::string& text) { fmt::print(stderr, "orrery: {}\n", text); };
  return out;
}

JobReplay replay_of(const SlurmOptions& options, const live::NodeMap& nodes) {
  JobReplay replay;
  replay.set_trace("slurm");
  replay.set_nodes(nodes.nodes());
  replay.set_gpus_per_node(nodes.gpus_per_node());
  replay.set_policy(options.policy);
  replay.set_placement(options.placement);
  replay.set_estimates("requested");
  for (const std::string& change : options.changes) replay.add_set(change);
  return replay;
}

void print_counts(const SlurmOptions& options, const live::SlurmCluster& cluster,
                  const HandOverReport& decisions) {
  const live::SlurmCluster::Counts& counts = cluster.counts();
  const double slowest_ms = static_cast<double>(counts.slowest.count()) / 1e6;
  if (options.json) {
    const nlohmann::ordered_json out{{"nodes", cluster.nodes().nodes()},
                                     {"gpus_per_node", cluster.nodes().gpus_per_node()},
                                     {"policy", options.policy},
                                     {"mode", options.operation.mode},
                                     {"readings", counts.readings},
                                     {"failed_readings", counts.failed_readings},
                                     {"slowest_reading_ms", slowest_ms},
                                     {"starts", counts.starts},
                                     {"stops", counts.stops},
                                     {"observed_only", decisions.only_watched()},
                                     {"refused", decisions.refused()},
                                     {"lease_commands", counts.leases},
                                     {"complaints", counts.complaints}};
    fmt::print("{}\n", out.dump(2));
    return;
  }
  fmt::print("{:<12}{} nodes x {} GPUs\n", "cluster", cluster.nodes().nodes(),
             cluster.nodes().gpus_per_node());
  fmt::print("{:<12}{}, {}\n", "policy", options.policy, options.operation.mode);
  fmt::print("{:<12}{}, {} failed, the slowest {:.0f} ms\n", "readings", counts.readings,
             counts.failed_readings, slowest_ms);
  fmt::print("{:<12}{} starts, {} stops, {} observed only, {} refused by the operator\n",
             "decisions", counts.starts, counts.stops, decisions.only_watched(),
             decisions.refused());
  fmt::print("{:<12}{} for leases, {} complaints of Slurm\n", "commands", counts.leases,
             counts.complaints);
}

/// Completes the log of an earlier command that was killed: LOG.partial becomes LOG.1, LOG.2, ...
void save_killed_log(const std::string& log) {
  namespace fs = std::filesystem;
  const std::string partial = partial_log(log);
  std::error_code unknown;
  if (log.empty() || !fs::is_regular_file(partial, unknown)) return;
  std::string name;
  for (int number = 1; name.empty() || fs::exists(name, unknown); ++number) {
    name = fmt::format("{}.{}", log, number);
  }
  try {
    const std::uint64_t calls = complete_log(partial, name);
    fmt::print(stderr, "orrery: the log of a command that was killed is {} ({} calls)\n", name,
               calls);
  } catch (const Error& error) {
    fs::remove(name, unknown);
    fmt::print(stderr, "orrery: {} cannot be completed: {}\n", partial, error.message());
  }
}

int drive_slurm(const SlurmOptions& options) {
  check(options);
  const StopSignals signals;
  const std::unique_ptr<Operator> operated = options.operation.make_operator(false);
  const auto halted = [&] {
    std::error_code unknown;
    const std::string& file = options.operation.kill_switch;
    const bool is_on = !file.empty() && (std::filesystem::exists(file, unknown) || unknown);
    return is_on || operated->is_halted();
  };
  const auto commands = live::installed_slurm(kSlurmPatience);
  live::SlurmCluster::Options chosen = cluster_options(options, halted);
  Recorder* recorded = nullptr;
  chosen.at_reading = [&recorded] {
    if (recorded != nullptr) recorded->flush();
  };
  live::SlurmCluster cluster(*commands, chosen);
  OperatorApprover approver(*operated);
  HandOver hand_over(
      cluster,
      {.mode = hand_over_mode(options.operation.mode), .approver = &approver, .stopped = halted});
  live::EndsWithReadings until_over(hand_over, cluster);
  const JobReplay replay = replay_of(options, cluster.nodes());
  const auto policy = scheduler_of(replay);
  const bool acts = chosen.rules.acts;
  PrintedPolicy printed(*policy, cluster, acts ? "start" : "would start",
                        acts ? "requeue" : "would requeue");
  save_killed_log(options.record);
  LogHeader header;
  header.set_version(version());
  header.set_mode("jobs");
  *header.mutable_replay() = replay;
  Recorder recorder(until_over, printed, header,
                    {.path = options.record, .hash = !options.record.empty()});
  recorded = &recorder;
  if (acts) {
    fmt::print(stderr, "orrery: managed jobs start by themselves {} s after this process stops\n",
               options.lease_s);
  }
  Rng rng = policy_rng(0);
  Context context{rng, {}};
  drive(printed, recorder, context);
  recorder.finish_log();
  HandOverReport decisions;
  hand_over.fill(decisions);
  print_counts(options, cluster, decisions);
  return 0;
}

void declare_slurm(CLI::App& command, const std::shared_ptr<SlurmOptions>& options) {
  command.add_option("--policy", options->policy, "queue policy, as in orrery jobs")->required();
  command
      .add_option("--partition", options->partitions,
                  "manage the jobs of this partition; repeat "
                  "for several")
      ->type_name("P")
      ->allow_extra_args(false);
  command
      .add_option("--account", options->accounts,
                  "manage the jobs of this account only; repeat "
                  "for several")
      ->type_name("A")
      ->allow_extra_args(false);
  OperatorOptions& operation = options->operation;
  operation.mode = "shadow";
  one_of(*command.add_option("--mode", operation.mode,
                             "mode of the decisions: only observed, approved, or applied"),
         {"shadow", "approve", "drive"})
      .capture_default_str();
  command
      .add_option("--hook", operation.hook,
                  "approve: command with the decision as its argument; "
                  "exit code 0 is a yes")
      ->type_name("COMMAND");
  command
      .add_option("--kill-switch", operation.kill_switch,
                  "no command is sent while this file exists; SIGUSR1 does the same for the rest "
                  "of the run")
      ->type_name("FILE");
  whole_number(*command.add_option("--actions-per-minute", options->per_minute,
                                   "limit of starts and requeues"),
               1, 1'000'000)
      .type_name("N");
  number(*command.add_option("--every", options->every_s, "seconds between two readings"), 0.1, 60)
      .type_name("S")
      ->capture_default_str();
  number(*command.add_option("--for", options->for_s,
                             "seconds of the run; without it until a "
                             "signal"),
         0.1, 1e9)
      .type_name("S");
  whole_number(*command.add_option("--lease", options->lease_s,
                                   "seconds after which Slurm starts a waiting job by itself"),
               4, 86400)
      .type_name("S")
      ->capture_default_str();
  whole_number(*command.add_option("--patience", options->patience_s,
                                   "seconds that Slurm has to start an ordered job"),
               5, 86400)
      .type_name("S")
      ->capture_default_str();
  one_of(*command.add_option("--placement", options->placement, "placement of the jobs"),
         placer_names())
      .capture_default_str();
  command
      .add_option("--set", options->changes,
                  "change one policy parameter: "
                  "max-min.quotas=[{vc: a, gpus: 16}]")
      ->type_name("POLICY.PARAMETER=VALUE")
      ->allow_extra_args(false);
  command.add_option("--record", options->record, "write the log of the run, for orrery replay")
      ->type_name("LOG");
  command.add_flag("--json", options->json, "print one JSON object at the end");
}

}  // namespace

void add_cluster(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("cluster", "let a policy act on a real cluster");
  command->require_subcommand(1);
  CLI::App* slurm = command->add_subcommand(
      "slurm", "let a queue policy act on the Slurm whose commands are in PATH, or watch it");
  const auto options = std::make_shared<SlurmOptions>();
  declare_slurm(*slurm, options);
  add_examples(*slurm, {"orrery cluster slurm --policy easy --partition gpu",
                        "orrery cluster slurm --policy easy --partition gpu --mode drive "
                        "--record gpu.log",
                        "orrery cluster slurm --policy srtf --partition gpu --account ours --mode "
                        "approve --hook ./ask.sh"});
  slurm->callback([options, &chosen] { chosen = [options] { return drive_slurm(*options); }; });
}

}  // namespace orrery::cli
