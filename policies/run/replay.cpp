#include "policies/run/replay.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "policies/handover/fallback.hpp"
#include "policies/record/encoding.hpp"
#include "policies/record/log_reader.hpp"
#include "policies/record/recorder.hpp"
#include "policies/record/samples_book.hpp"
#include "policies/run/policy_failure.hpp"
#include "policies/run/registry.hpp"
#include "policies/seam/drive.hpp"
#include "topologies/builder.hpp"

namespace orrery {
namespace {

/// Returns the scenario of the header; for a job-level replay a scenario with only its policy.
Scenario scenario_of(const LogHeader& header) {
  if (header.has_scenario()) return header.scenario();
  Scenario scenario;
  *scenario.add_policies() = policy_of(header.replay());
  return scenario;
}

/// Sets the parameter that `text` (POLICY.PARAMETER=VALUE) names in the scenario.
void override_parameter(Scenario& scenario, const std::string& text) {
  const ParameterSet set = parameter_set(text);
  std::vector<std::string> names;
  for (const PolicySpec& policy : scenario.policies()) names.push_back(policy.name());
  const auto found = std::find(names.begin(), names.end(), set.policy);
  if (found == names.end()) {
    throw Error(ErrorKind::bad_input, fmt::format("the log has no policy '{}'{}", set.policy,
                                                  did_you_mean(set.policy, names)));
  }
  set_field(scenario,
            fmt::format("policies[{}].parameters.{}", found - names.begin(), set.parameter),
            set.value, "--set");
}

/// Backend of a recorded run: shows the recorded observations and compares the decisions.
class LogBackend : public Backend {
 public:
  LogBackend(LogReader& log, const LogHeader& header, const Policy& policy, const Cluster& cluster)
      : log_(log), policy_(policy), header_(header), cluster_(cluster), reader_(cluster) {
    log_hash_.add_record(log.bytes());
    const Needs offered = decode(header.offered());
    offered_ = {offered.actions, offered.settings};
  }

  Capabilities capabilities() const override { return offered_; }
  const Cluster& cluster() const override { return cluster_; }
  void begin(const Needs& needs) override {
    NeedsRecord now;
    encode(needs, now);
    if (now.SerializeAsString() == header_.needs().SerializeAsString()) return;
    differs_at_ = 0;
    difference_ = fmt::format("the policies' needs differ from the recorded ones: {}",
                              describe_change(decode(header_.needs()), needs));
  }

  std::optional<Observation> next() override {
    if (!difference_.empty()) return {};
    if (!log_.next(record_)) log_.refuse_log("is cut short");
    if (record_.has_footer()) {
      compare_footer(record_.footer());
      return {};
    }
    if (!record_.has_call()) log_.refuse_last("is neither a call nor a footer");
    policy_decides_ = true;
    try {
      if (has_column_digests(log_.format())) {
        log_hash_.add_stored(record_);
      } else {
        log_hash_.add_record(log_.bytes());
      }
      recorded_.clear();
      for (const DecisionRecord& decision : record_.call().decisions()) {
        recorded_.push_back(decode(decision));
      }
      samples_.clear();
      for (const SamplesRead& read : record_.call().read()) samples_.add(read);
      seen_.emplace(reader_.read(record_.call().observation(), samples_));
      trace_.add_observation(*seen_);
      return seen_;
    } catch (const Error& error) {
      policy_decides_ = false;
      log_.refuse_last(error.message());
    }
  }

  void apply(const DecisionList& decisions) override {
    policy_decides_ = false;
    const CallRecord& call = record_.call();
    if (const SamplesRead* missed = samples_.missing_read()) {
      return differs(
          fmt::format("the policy reads {} of job {}, which it did not read in the recorded "
                      "run",
                      describe_read(*missed), missed->job()));
    }
    compare(decisions);
    if (difference_.empty() && call.at_rest() != decisions.is_resting()) {
      differs(fmt::format("recorded {}, replayed {}", rest_name(call.at_rest()),
                          rest_name(decisions.is_resting())));
    }
    const bool digested = call.state_digest() != 0 && has_comparable_digests(log_.format());
    has_digests_ = has_digests_ || digested;
    if (difference_.empty() && digested && call.state_digest() != state_digest(policy_)) {
      differs(
          "the policy's state differs from the recorded one: the policy, its arguments or its "
          "save() is another, or a sample or a parameter was altered");
    }
    for (const Decision& decision : decisions.items()) trace_.add_decision(decision, *seen_);
    ++calls_;
  }

  bool policy_decides() const { return policy_decides_; }
  /// Returns the reason for which the recorded run gave up its policies in the current call.
  const std::string& given_up() const { return record_.call().given_up(); }
  void differs(const std::string& how) {
    differs_at_ = record_.call().observation().now();
    difference_ = fmt::format("call {} at {} s: {}", calls_,
                              to_seconds(record_.call().observation().now()), how);
  }
  ReplayResult result() {
    if (trace_sha256_.empty()) trace_sha256_ = trace_.finish_trace();
    return {.calls = calls_,
            .decisions = decisions_,
            .decision_trace_sha256 = trace_sha256_,
            .first_difference = difference_,
            .differs_at = differs_at_,
            .states_compared = has_digests_ || calls_ == 0};
  }

 private:
  static const char* rest_name(bool at_rest) { return at_rest ? "at rest" : "not at rest"; }

  static std::string describe_change(const Needs& recorded, const Needs& now) {
    if (recorded.tick != now.tick) {
      return fmt::format("recorded a tick of {} s, now {} s", to_seconds(recorded.tick),
                         to_seconds(now.tick));
    }
    return "other actions or settings";
  }

  void compare(const DecisionList& decisions) {
    decisions_ += decisions.items().size();
    const CallRecord& call = record_.call();
    bool same = decisions.items().size() == recorded_.size();
    for (std::size_t i = 0; same && i < recorded_.size(); ++i) {
      DecisionRecord replayed;
      encode(decisions.items()[i], replayed);
      same =
          replayed.SerializeAsString() == call.decisions(static_cast<int>(i)).SerializeAsString();
    }
    if (!same) {
      differs(fmt::format("recorded {}, replayed {}", describe_all(recorded_),
                          describe_all(decisions.items())));
      return;
    }
    if (!std::equal(decisions.wake_times().begin(), decisions.wake_times().end(),
                    call.wakes().begin(), call.wakes().end())) {
      differs("the policies request calls at other instants than recorded");
      return;
    }
    for (const Decision& decision : decisions.items()) reader_.world().announce_decision(decision);
  }

  void compare_footer(const LogFooter& footer) {
    LogRecord beyond;
    if (log_.next(beyond)) log_.refuse_last("follows the end of the log");
    trace_sha256_ = trace_.finish_trace();
    if (footer.calls() != calls_) {
      difference_ = fmt::format("recorded {} calls, replayed {}", footer.calls(), calls_);
    } else if (footer.decision_log_sha256() != log_hash_.hex()) {
      difference_ = "the bytes of the log differ from the recorded ones: the log was altered";
    } else if (footer.decision_trace_sha256() != trace_sha256_) {
      difference_ = "the decision trace is not the recorded one";
    }
  }

  LogReader& log_;
  const Policy& policy_;
  const LogHeader& header_;
  const Cluster& cluster_;
  ObservationReader reader_;
  Capabilities offered_;
  LogRecord record_;
  SamplesBook samples_;
  std::optional<Observation> seen_;
  std::vector<Decision> recorded_;
  LogHash log_hash_;
  bool has_digests_ = false;  ///< a call had a digest of the state that was compared
  DecisionTrace trace_;
  std::string trace_sha256_;
  std::uint64_t calls_ = 0, decisions_ = 0;
  bool policy_decides_ = false;  ///< true between an observation and its decisions
  std::string difference_;
  Nanos differs_at_ = kNever;
};

/// Returns the cluster of the header. A missing or invalid value is an error of the log.
Cluster cluster_of(const LogReader& log, const LogHeader& header) {
  try {
    if (!header.has_scenario()) return orrery::cluster_of(header.replay());
    const Topology& cluster = header.scenario().cluster();
    JobReplay counts;  // checked first: a damaged log must not build a huge cluster
    counts.set_nodes(cluster.nodes());
    counts.set_gpus_per_node(cluster.node().gpus_per_node());
    orrery::cluster_of(counts);
    return build_cluster(cluster, SourceMap{});
  } catch (const Error& error) {
    log.refuse_last(error.message());
  }
}

/// Returns the command that replays a log of policies outside the registry.
std::string command_of(const std::string& path, const LogHeader& header) {
  std::string command = fmt::format("orrery replay {}", path);
  std::vector<std::string> names(header.outside_policies().begin(),
                                 header.outside_policies().end());
  if (header.has_replay() && names.empty()) names.push_back(header.replay().policy());
  bool complete = !names.empty();
  for (const std::string& name : names) {
    const bool is_program = name.find('/') != std::string::npos;
    const bool known = is_program || is_policy_file(name) || is_policy(name);
    complete = complete && known;
    command += fmt::format(" --policy {}{}", known ? "" : "FILE.py:", name);
  }
  if (names.empty()) command += " --policy FILE.py";
  return complete ? "`" + command + "`"
                  : fmt::format("`{}`, or in Python orrery.replay(log, policy=...)", command);
}

/// Policy of the caller with the random generator that it had in run_in_worker(), instead of the
/// generator of the stack around it.
class OutsidePolicy : public Policy {
 public:
  OutsidePolicy(Policy& inner, std::uint64_t seed) : inner_(inner), rng_(policy_rng(seed)) {}

  Needs needs() const override { return inner_.needs(); }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override {
    Context own{rng_, context.backend};
    inner_.start(own, cluster, parameters);
  }
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override {
    Context own{rng_, context.backend};
    try {
      inner_.observe(own, seen, decisions);
    } catch (const std::exception& error) {  // the message equals that of the run
      throw Error(ErrorKind::bad_input, policy_failure(error));
    }
  }
  void save(Archive& archive) const override { inner_.save(archive); }
  bool has_changed() const override { return inner_.has_changed(); }

 private:
  Policy& inner_;
  Rng rng_;
};

ReplayResult replay(LogReader& log, const LogHeader& header, Policy& stack) {
  const Cluster cluster = cluster_of(log, header);
  FallbackPolicy policy(stack, header.fall_back());
  LogBackend backend(log, header, policy, cluster);
  policy.on_replay([&backend] { return backend.given_up(); });
  Rng rng = policy_rng(header.seed());
  Context context{rng, {}};
  try {
    drive(policy, backend, context);
  } catch (const std::exception& error) {
    if (!backend.policy_decides()) throw;
    backend.differs(fmt::format("the policy fails: {}", error.what()));
  }
  return backend.result();
}

}  // namespace

ReplayResult replay_log(const std::string& path, const std::vector<std::string>& overrides) {
  LogReader log(path);
  const LogHeader header = read_header(log);
  const bool own = header.has_replay() && !is_policy(header.replay().policy());
  if (header.policy_outside() || own) {
    log.refuse_last("the run had policies of your own: replay the log with " +
                    command_of(path, header));
  }
  if (header.has_choice()) {
    log.refuse_last(fmt::format("forecasts chose among several policies: replay the log with "
                                "`orrery replay {}`",
                                path));
  }
  Scenario scenario = scenario_of(header);
  for (const std::string& text : overrides) override_parameter(scenario, text);
  return replay(log, header, *make_stack(scenario, SourceMap{}));
}

ReplayResult replay_log(const std::string& path, Policy& policy) {
  LogReader log(path);
  const LogHeader header = read_header(log);
  if (!header.policy_outside()) return replay(log, header, policy);
  std::vector<PolicyStack::Member> members;
  members.push_back({.name = "outside",
                     .policy = std::make_unique<OutsidePolicy>(policy, header.seed()),
                     .parameters = nullptr});
  PolicyStack stack(std::move(members));
  return replay(log, header, stack);
}

}  // namespace orrery
