#include "cli/shared/cluster_session.hpp"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/shared/policy_option.hpp"
#include "cli/shared/twin_output.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "core/schema/names.hpp"
#include "core/units.hpp"
#include "policies/placement/placer.hpp"
#include "policies/run/complete_log.hpp"
#include "policies/run/registry.hpp"
#include "policies/seam/drive.hpp"
#include "traces/report/report.hpp"

namespace orrery::cli {
namespace {

std::chrono::nanoseconds seconds(double s) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(s * 1e9));
}

/// Policy that forwards to another policy, and shows the events before and the decisions after each
/// call.
class ShownPolicy : public Policy {
 public:
  using EventSink = std::function<void(const Event&)>;
  using DecisionSink = std::function<void(const Decision&, Nanos now)>;
  ShownPolicy(Policy& inner, EventSink show_event, DecisionSink show_decision)
      : inner_(inner),
        show_event_(std::move(show_event)),
        show_decision_(std::move(show_decision)) {}

  Needs needs() const override { return inner_.needs(); }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override {
    inner_.start(context, cluster, parameters);
  }
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override {
    for (const Event& event : seen.events) show_event_(event);
    const std::size_t before = decisions.items().size();
    inner_.observe(context, seen, decisions);
    for (std::size_t i = before; i < decisions.items().size(); ++i) {
      show_decision_(decisions.items()[i], seen.now);
    }
  }
  void save(Archive& archive) const override { inner_.save(archive); }
  void load(const Archive& archive) override { inner_.load(archive); }
  bool has_changed() const override { return inner_.has_changed(); }

 private:
  Policy& inner_;
  const EventSink show_event_;
  const DecisionSink show_decision_;
};

/// Returns a time with a unit ("20 s", "2 min") in seconds if that is a whole number, and any other
/// text as it is.
std::string whole_seconds(std::string text) {
  const std::optional<double> time = parse_quantity(text, Dimension::time);
  if (!time || *time != std::floor(*time)) return text;
  return fmt::format("{:.0f}", *time);
}

/// Returns a rate "N/min" as N; any other text as it is.
std::string number_per_minute(std::string text) {
  constexpr std::string_view kPerMinute = "/min";
  if (text.ends_with(kPerMinute)) text.resize(text.size() - kPerMinute.size());
  return text;
}

/// Returns the names of the policies that may decide.
std::vector<std::string> policies_of(const ClusterOptions& options) {
  JobReplay replay;
  replay.set_policy(options.policy);
  return policies_of_choice(replay, options.choice.job_choice());
}

/// Returns a scenario with the built-in policies of the log, whose parameters can be set.
Scenario settable_policies(const LogHeader& header) {
  Scenario scenario;
  JobReplay replay = header.replay();
  for (const std::string& name : policies_of_choice(replay, header.choice())) {
    if (!is_policy(name)) continue;
    replay.set_policy(name);
    *scenario.add_policies() = policy_of(replay);
  }
  return scenario;
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

// ---- approvals ------------------------------------------------------------------------------

/// Approver whose questions the operator of this command and `orrery attach` answer; the first
/// answer counts. The operator of a run that was started in another mode is not asked.
class ClusterSession::Approvals : public Approver {
 public:
  explicit Approvals(ClusterSession& session)
      : session_(session),
        operator_(*session.operator_),
        asks_operator_(session.mode_ == HandOverMode::approve) {}

  void request_approval(const Decision& decision, Nanos now) override {
    session_.status_.add_question(decision, session_.describe_decision(decision));
    if (asks_operator_) operator_.request_approval(decision, now);
  }
  std::vector<Verdict> verdicts() override {
    std::vector<Verdict> out = session_.status_.drain_verdicts();
    for (Verdict& each : operator_.verdicts()) {
      if (session_.status_.close_question(each.decision)) out.push_back(std::move(each));
    }
    return out;
  }

 private:
  ClusterSession& session_;
  OperatorApprover operator_;
  const bool asks_operator_;
};

// ---- the run --------------------------------------------------------------------------------

ClusterSession::ClusterSession(const ClusterOptions& options, const ClusterWords& words)
    : options_(options),
      words_(words),
      mode_(hand_over_mode(options.operation.mode)),
      active_(options.policy),
      operator_([&] {
        RunRequest checked;
        options.operation.fill(checked, false);
        check_policy_name(options.policy);
        options.choice.check_policies({options.policy});
        return options.operation.make_operator(false);
      }()),
      status_(words.scheduler, options.metrics, policies_of(options),
              [this](const ParameterSet& set) { return objection(set); }) {}

bool ClusterSession::is_halted() const {
  std::error_code unknown;
  const std::string& file = options_.operation.kill_switch;
  const bool is_on = !file.empty() && (std::filesystem::exists(file, unknown) || unknown);
  return is_on || operator_->is_halted();
}

/// Attends to the operators; returns true if the run is to end.
bool ClusterSession::is_to_end() {
  status_.read_orders();
  if (status_.is_due()) status_.publish_status(figures());
  return StopSignals::is_stopped() || status_.is_stopped();
}

void ClusterSession::report(const std::string& text) {
  fmt::print(stderr, "orrery: {}\n", text);
  status_.add_line(text);
}

live::QueueCluster::Options ClusterSession::cluster_options() {
  live::QueueCluster::Options out;
  out.every = seconds(options_.every_s);
  if (options_.for_s > 0) out.until = seconds(options_.for_s);
  out.per_minute = options_.per_minute;
  out.is_quiet = !acts();
  out.has_ticks = mode_ == HandOverMode::approve;
  out.stopped = [this] { return is_to_end(); };
  out.halted = [this] { return is_halted(); };
  out.at_reading = [this] {
    if (recorder_ != nullptr) recorder_->flush();
  };
  out.drain_parameters = [this] { return drain_parameters(); };
  out.tell = [this](const std::string& text) { report(text); };
  return out;
}

LogHeader ClusterSession::header_of(std::uint32_t nodes_per_rack) const {
  LogHeader header;
  header.set_version(version());
  header.set_mode("jobs");
  JobReplay& replay = *header.mutable_replay();
  replay.set_trace(words_.scheduler);
  live::describe_nodes(cluster_->nodes(), nodes_per_rack, replay);
  replay.set_policy(options_.policy);
  replay.set_placement(options_.placement);
  replay.set_estimates("requested");
  for (const std::string& change : options_.changes) replay.add_set(change);
  if (!options_.choice.policies.empty()) *header.mutable_choice() = options_.choice.job_choice();
  return header;
}

int ClusterSession::run(live::QueueCluster& cluster, std::uint32_t nodes_per_rack) {
  cluster_ = &cluster;
  const LogHeader header = header_of(nodes_per_rack);
  settable_ = settable_policies(header);
  Approvals approvals(*this);
  HandOver hand_over(cluster, {.mode = mode_,
                               .approver = &approvals,
                               .stopped = [this] { return is_halted(); }});
  hand_over_ = &hand_over;
  live::EndsWithReadings until_over(hand_over, cluster);
  const auto policy =
      recorded_scheduler(header, [this](const sim::PolicySwitch& made) { show_switch(made); });
  ShownPolicy shown(
      *policy, [this](const Event& event) { show_event(event); },
      [this](const Decision& decision, Nanos now) { show_decision(decision, now); });
  save_killed_log(options_.record);
  Recorder recorder(until_over, shown, header,
                    {.path = options_.record, .hash = !options_.record.empty()});
  recorder_ = &recorder;
  Rng rng = policy_rng(0);
  Context context{rng, {}};
  drive(shown, recorder, context);
  recorder_ = nullptr;
  recorder.finish_log();
  HandOverReport decisions;
  hand_over.fill(decisions);
  status_.show_last(figures());
  print_counts(decisions);
  return 0;
}

// ---- orders of operators --------------------------------------------------------------------

std::string ClusterSession::objection(const ParameterSet& set) const {
  if (set.policy.empty()) {
    const auto mode = find_named<HandOverMode>(set.value);
    if (set.parameter == kModeParameter && mode) return cluster_->mode_objection(*mode);
    return fmt::format("expected {}=shadow, approve or drive, or a parameter of a policy, found "
                       "'{}'",
                       kModeParameter, set.value);
  }
  if (settable_.policies().empty()) {
    return fmt::format("expected a built-in policy, found {}, whose parameters are its own",
                       options_.policy);
  }
  try {
    check_parameter(settable_, set, cluster_->cluster());
  } catch (const Error& error) {
    return error.message();
  }
  return {};
}

/// Returns the parameters for the policies, which become events of the log; a change of the mode is
/// such an event, too, and takes effect here.
std::vector<ParameterSet> ClusterSession::drain_parameters() {
  std::vector<ParameterSet> sets = status_.drain_parameters();
  for (const ParameterSet& set : sets) {
    if (!set.policy.empty()) continue;
    mode_ = hand_over_mode(set.value);
    hand_over_->set_mode(mode_);
    cluster_->set_mode(mode_);
  }
  return sets;
}

// ---- output ---------------------------------------------------------------------------------

std::string ClusterSession::describe_decision(const Decision& decision) const {
  const auto* assign = std::get_if<Assign>(&decision.what);
  if (assign == nullptr) return std::string(action_name(decision.what));
  const std::string id = cluster_->id_of(assign->job);
  if (assign->is_release()) return fmt::format("{} {} {}", words_.stop, words_.job, id);
  return fmt::format("start {} {} on {}", words_.job, id,
                     fmt::join(cluster_->nodes().names_of(assign->gpus), ","));
}

void ClusterSession::show_decision(const Decision& decision, Nanos now) {
  const std::string text =
      fmt::format("{}{}: {}", acts() ? "" : "would ", describe_decision(decision), decision.why);
  fmt::print("{} {}\n", clock_time(now), text);
  std::fflush(stdout);
  if (mode_ != HandOverMode::approve) status_.add_line(text);  // approve: the question has a line
}

void ClusterSession::show_event(const Event& event) {
  if (const auto* outcome = std::get_if<Decided>(&event)) {
    status_.record_outcome(*outcome, acts());
  } else if (const auto* set = std::get_if<ParameterSet>(&event)) {
    report(fmt::format("the operator has set {} = {}", set_name(*set), set->value));
  }
}

void ClusterSession::show_switch(const sim::PolicySwitch& made) {
  active_ = made.to;
  report(choice_text(made));
}

ClusterFigures ClusterSession::figures() const {
  ClusterFigures out{.phase = ClusterPhase::running,
                     .policy = active_,
                     .mode = mode_,
                     .nodes = cluster_->nodes().known_nodes(),
                     .gpus_per_node = cluster_->nodes().gpus_per_node(),
                     .counts = cluster_->counts(),
                     .orders = cluster_->open_orders(),
                     .lease_s = options_.lease_s,
                     .lease_text = cluster_->lease_text()};
  if (is_halted()) out.phase = ClusterPhase::halted;
  if (StopSignals::is_stopped() || status_.is_stopped()) out.phase = ClusterPhase::ending;
  for (const JobInfo& job : cluster_->jobs()) {
    if (job.phase == JobPhase::waiting) ++out.waiting;
    if (job.is_placed()) ++out.running;
  }
  return out;
}

void ClusterSession::print_counts(const HandOverReport& decisions) const {
  const live::QueueCluster::Counts& counts = cluster_->counts();
  const double slowest_ms = static_cast<double>(counts.slowest.count()) / 1e6;
  const live::NodeMap& nodes = cluster_->nodes();
  if (options_.json) {
    const nlohmann::ordered_json out{{"nodes", nodes.known_nodes()},
                                     {"gpus_per_node", nodes.gpus_per_node()},
                                     {"policy", active_},
                                     {"mode", std::string(name_of(mode_))},
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
  fmt::print("{:<12}{} nodes x {} GPUs\n", "cluster", nodes.known_nodes(),
             nodes.gpus_per_node());
  fmt::print("{:<12}{}, {}\n", "policy", active_, name_of(mode_));
  fmt::print("{:<12}{}, {} failed, the slowest {:.0f} ms\n", "readings", counts.readings,
             counts.failed_readings, slowest_ms);
  fmt::print("{:<12}{} starts, {} stops, {} observed only, {} refused by the operator\n",
             "decisions", counts.starts, counts.stops, decisions.only_watched(),
             decisions.refused());
  fmt::print("{:<12}{} for leases, {} complaints of {}\n", "commands", counts.leases,
             counts.complaints, words_.shown);
}

// ---- options --------------------------------------------------------------------------------

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
  command.add_flag("--attended", operation.attended,
                   "approve: `orrery attach` answers instead of this terminal");
  whole_number(*command.add_option("--max-actions,--actions-per-minute", per_minute,
                                   "limit of starts and stops in a minute: 30 or 30/min"),
               1, 1'000'000)
      .transform(number_per_minute, "", "")
      ->type_name("N");
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
  choice.add(command,
             "let forecasts choose among these policies and the one of --policy: the best one "
             "decides",
             0.1);
  command
      .add_option("--metrics", metrics,
                  "write metrics for Prometheus about once a second, or serve them at a socket")
      ->type_name("FILE|unix:PATH");
  command.add_option("--record", record, "write the log of the run, for orrery replay")
      ->type_name("LOG");
  command.add_flag("--json", json, "print one JSON object at the end");
}

void ClusterOptions::add_lease(CLI::App& command, const std::string& help, std::int64_t most_s) {
  whole_number(*command.add_option("--lease", lease_s, help), 4, most_s)
      .transform(whole_seconds, "", "")
      ->type_name("S")
      ->capture_default_str();
}

}  // namespace orrery::cli
