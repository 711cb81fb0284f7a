#include "cli/shared/cluster_session.hpp"

#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/shared/policy_option.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "policies/handover/hand_over.hpp"
#include "policies/placement/placer.hpp"
#include "policies/run/complete_log.hpp"
#include "policies/seam/drive.hpp"
#include "traces/report/report.hpp"

namespace orrery::cli {
namespace {

std::chrono::nanoseconds seconds(double s) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(s * 1e9));
}

/// Policy that forwards to another policy and prints each decision with the cluster's names.
class PrintedPolicy : public Policy {
 public:
  PrintedPolicy(Policy& inner, const live::QueueCluster& cluster, const ClusterWords& words,
                bool acts)
      : inner_(inner), cluster_(cluster), words_(words), would_(acts ? "" : "would ") {}

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
      fmt::print("{} {}{} {} {}: {}\n", clock_time(now), would_, words_.stop, words_.job, id,
                 decision.why);
    } else {
      fmt::print("{} {}start {} {} on {}: {}\n", clock_time(now), would_, words_.job, id,
                 fmt::join(cluster_.nodes().names_of(assign->gpus), ","), decision.why);
    }
    std::fflush(stdout);
  }

  Policy& inner_;
  const live::QueueCluster& cluster_;
  const ClusterWords& words_;
  const char* const would_;
};

void print_counts(const ClusterOptions& options, const ClusterWords& words,
                  const live::QueueCluster& cluster, const HandOverReport& decisions) {
  const live::QueueCluster::Counts& counts = cluster.counts();
  const double slowest_ms = static_cast<double>(counts.slowest.count()) / 1e6;
  if (options.json) {
    const nlohmann::ordered_json out{{"nodes", cluster.nodes().known_nodes()},
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
  fmt::print("{:<12}{} nodes x {} GPUs\n", "cluster", cluster.nodes().known_nodes(),
             cluster.nodes().gpus_per_node());
  fmt::print("{:<12}{}, {}\n", "policy", options.policy, options.operation.mode);
  fmt::print("{:<12}{}, {} failed, the slowest {:.0f} ms\n", "readings", counts.readings,
             counts.failed_readings, slowest_ms);
  fmt::print("{:<12}{} starts, {} stops, {} observed only, {} refused by the operator\n",
             "decisions", counts.starts, counts.stops, decisions.only_watched(),
             decisions.refused());
  fmt::print("{:<12}{} for leases, {} complaints of {}\n", "commands", counts.leases,
             counts.complaints, words.shown);
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

}  // namespace

ClusterSession::ClusterSession(const ClusterOptions& options, const ClusterWords& words)
    : options_(options), words_(words), operator_([&] {
        RunRequest checked;
        options.operation.fill(checked, false);
        check_policy_name(options.policy);
        return options.operation.make_operator(false);
      }()) {}

bool ClusterSession::acts() const {
  return hand_over_mode(options_.operation.mode) != HandOverMode::shadow;
}

bool ClusterSession::is_halted() const {
  std::error_code unknown;
  const std::string& file = options_.operation.kill_switch;
  const bool is_on = !file.empty() && (std::filesystem::exists(file, unknown) || unknown);
  return is_on || operator_->is_halted();
}

live::QueueCluster::Options ClusterSession::cluster_options() {
  live::QueueCluster::Options out;
  out.every = seconds(options_.every_s);
  if (options_.for_s > 0) out.until = seconds(options_.for_s);
  out.per_minute = options_.per_minute;
  out.is_quiet = !acts();
  out.has_ticks = hand_over_mode(options_.operation.mode) == HandOverMode::approve;
  out.stopped = &StopSignals::is_stopped;
  out.halted = [this] { return is_halted(); };
  out.at_reading = [this] {
    if (recorder_ != nullptr) recorder_->flush();
  };
  out.tell = [](const std::string& text) { fmt::print(stderr, "orrery: {}\n", text); };
  return out;
}

JobReplay ClusterSession::replay_of(const live::QueueCluster& cluster,
                                    std::uint32_t nodes_per_rack) const {
  JobReplay replay;
  replay.set_trace(words_.scheduler);
  live::describe_nodes(cluster.nodes(), nodes_per_rack, replay);
  replay.set_policy(options_.policy);
  replay.set_placement(options_.placement);
  replay.set_estimates("requested");
  for (const std::string& change : options_.changes) replay.add_set(change);
  return replay;
}

int ClusterSession::run(live::QueueCluster& cluster, std::uint32_t nodes_per_rack) {
  OperatorApprover approver(*operator_);
  HandOver hand_over(cluster, {.mode = hand_over_mode(options_.operation.mode),
                               .approver = &approver,
                               .stopped = [this] { return is_halted(); }});
  live::EndsWithReadings until_over(hand_over, cluster);
  const JobReplay replay = replay_of(cluster, nodes_per_rack);
  const auto policy = scheduler_of(replay);
  PrintedPolicy printed(*policy, cluster, words_, acts());
  save_killed_log(options_.record);
  LogHeader header;
  header.set_version(version());
  header.set_mode("jobs");
  *header.mutable_replay() = replay;
  Recorder recorder(until_over, printed, header,
                    {.path = options_.record, .hash = !options_.record.empty()});
  recorder_ = &recorder;
  Rng rng = policy_rng(0);
  Context context{rng, {}};
  drive(printed, recorder, context);
  recorder_ = nullptr;
  recorder.finish_log();
  HandOverReport decisions;
  hand_over.fill(decisions);
  print_counts(options_, words_, cluster, decisions);
  return 0;
}

void ClusterOptions::add(CLI::App& command, const ClusterWords& words) {
  command.add_option("--policy", policy, "queue policy, as in orrery jobs")
      ->type_name("P")
      ->required();
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
  whole_number(*command.add_option("--actions-per-minute", per_minute, "limit of starts and stops"),
               1, 1'000'000)
      .type_name("N");
  number(*command.add_option("--every", every_s, "seconds between two readings"), 0.1, 60)
      .type_name("S")
      ->capture_default_str();
  number(*command.add_option("--for", for_s,
                             "seconds of the run; without it until a "
                             "signal"),
         0.1, 1e9)
      .type_name("S");
  whole_number(*command.add_option("--patience", patience_s, words.waits), 5, 86400)
      .type_name("S")
      ->capture_default_str();
  one_of(*command.add_option("--placement", placement, "placement of the jobs"), placer_names())
      .capture_default_str();
  command
      .add_option("--set", changes,
                  "change one policy parameter: "
                  "max-min.quotas=[{vc: a, gpus: 16}]")
      ->type_name("POLICY.PARAMETER=VALUE")
      ->allow_extra_args(false);
  command.add_option("--record", record, "write the log of the run, for orrery replay")
      ->type_name("LOG");
  command.add_flag("--json", json, "print one JSON object at the end");
}

}  // namespace orrery::cli
