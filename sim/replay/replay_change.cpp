#include "sim/replay/replay_change.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "core/schema/json.hpp"
#include "core/schema/yaml_loader.hpp"
#include "policies/parameters.pb.h"
#include "policies/run/registry.hpp"
#include "topologies/cluster.hpp"
#include "traces/scenario/power_schedule.hpp"
#include "traces/scenario/replay_conditions.hpp"

namespace orrery::sim {
namespace {

using Json = nlohmann::ordered_json;

template <class Parameters>
std::optional<Parameters> parameters_of(const PolicySpec& spec) {
  Parameters parameters;
  if (!spec.parameters().UnpackTo(&parameters)) return {};
  return parameters;
}

/// Key that a replay does not read.
struct UnreadKey {
  std::vector<std::string> path;  ///< names of the fields, from the replay on
  std::string reason;
};

/// Settings of a replay, without those that it does not read.
struct Settings {
  Json given;  ///< all settings, with defaults
  Json read;
  std::vector<UnreadKey> unread;
};

/// Returns the value at a path; null if a part of the path is absent.
Json value_at(const Json& from, const std::vector<std::string>& path) {
  Json at = from;
  for (const std::string& name : path) {
    if (!at.is_object() || !at.contains(name)) return nullptr;
    at = Json(at.at(name));
  }
  return at;
}

void erase_at(Json& from, const std::vector<std::string>& path) {
  Json* at = &from;
  for (std::size_t i = 0; i + 1 < path.size(); ++i) {
    if (!at->is_object() || !at->contains(path[i])) return;
    at = &(*at)[path[i]];
  }
  if (at->is_object()) at->erase(path.back());
}

/// Returns the parts of the cluster that the queue policies of the program read at recorded speed:
/// its size, its kinds of GPUs, and, if the placement counts by unit, its scalable units.
Json places_of(const JobReplay& replay, const Json& parameters) {
  const Cluster cluster = cluster_of(replay);
  const Cluster::Shape& shape = cluster.shape();
  Json places = {shape.nodes, shape.gpus_per_node, shape.slices_per_gpu};
  for (const NodesOfKind& each : shape.kinds) places.push_back({each.kind, each.nodes});
  const Json placement = value_at(parameters, {"placement"});
  const bool any_place = placement == "count" || placement == "consolidated";
  if (!any_place) places.push_back(shape.nodes_per_unit);
  return places;
}

/// Returns true if limits of power may take GPUs from running jobs.
bool may_pause(const JobReplay& replay) {
  return replay.has_power() && spending_of(replay.power()) != JobSpending::flat;
}

/// Keys of the conditions that a replay does not read.
std::vector<UnreadKey> unread_conditions(const JobReplay& replay, const PolicyTraits& policy,
                                         const LogTraits& log) {
  const ReplayConditions& conditions = replay.conditions();
  const bool drawn = conditions.failures() > 0;
  const bool fails = drawn || !conditions.outages().empty();
  std::vector<UnreadKey> unread;
  const auto add = [&unread](const char* name, std::string reason) {
    unread.push_back({{"conditions", name}, std::move(reason)});
  };
  if (!log.has_limits) add("enforce_limits", "no job of the log has a requested time");
  if (!drawn) add("repair", "no node fails by chance; add --set conditions.failures=N");
  if (!fails) {
    add("checkpoint_every", "no node fails; add --set conditions.failures=N");
    if (!policy.may_preempt && !may_pause(replay)) {
      add("restart_cost", fmt::format("{} preempts no job, and no node fails", replay.policy()));
    }
  }
  if (speed_of(conditions) == JobSpeed::recorded) {
    add("kinds", "jobs run for their recorded durations; add --speed simulated");
  }
  return unread;
}

/// Keys that a replay does not read, without those of its cluster and its policy.
std::vector<UnreadKey> unread_keys(const JobReplay& replay, const PolicyTraits& policy,
                                   const LogTraits& log) {
  std::vector<UnreadKey> unread = unread_conditions(replay, policy, log);
  const auto add = [&unread](const char* name, std::string reason) {
    unread.push_back({{name}, std::move(reason)});
  };
  add("trace", "the log is read once, before all replays");
  add("strict", "the log is read once, before all replays");
  const bool disturbed = policy.reads_estimates &&
                         find_named<EstimateKind>(replay.estimates()) == EstimateKind::disturbed;
  const std::string reads_none = fmt::format("{} reads no estimates", replay.policy());
  if (!policy.reads_estimates) add("estimates", reads_none);
  if (!disturbed) {
    add("estimate_error",
        policy.reads_estimates ? "estimates have no error; add --estimates disturbed" : reads_none);
  }
  const bool simulated = speed_of(replay.conditions()) == JobSpeed::simulated;
  if (!disturbed && !simulated && replay.conditions().failures() <= 0) {
    add("seed", "nothing is drawn; add --estimates disturbed");
  }
  if (simulated && is_policy(replay.policy())) {
    unread.push_back({{"cluster", "price"}, "a replay has no costs"});
  }
  if (!log.names_kinds) add("node_kinds", "no job of the log names a kind of GPU");
  return unread;
}

Settings settings_of(const JobReplay& asked, const LogTraits& log) {
  JobReplay replay = asked;
  replay.mutable_conditions();
  fill_defaults(replay);
  if (!log.names_kinds) replay.clear_node_kinds();
  const bool is_known = is_policy(replay.policy());
  Settings settings;
  settings.given = to_json(replay);
  settings.given["node_kinds"] = to_json(asked)["node_kinds"];
  settings.read = to_json(replay);
  if (is_known) {
    settings.read["set"] = to_json(policy_of(replay));  // other policies have no effect
    // Limits of power depend on all figures of the cluster.
    if (speed_of(replay.conditions()) == JobSpeed::recorded && !replay.has_power()) {
      settings.read["cluster"] = places_of(replay, settings.read["set"]["parameters"]);
    }
  }
  settings.unread = unread_keys(replay, policy_traits(replay), log);
  for (const UnreadKey& each : settings.unread) erase_at(settings.read, each.path);
  return settings;
}

}  // namespace

PolicyTraits policy_traits(const JobReplay& replay) {
  static const std::set<std::string> without_estimates{
      "fifo", "fifo-skip", "las", "priority", "gittins", "drf", "max-min", "elastic"};
  static const std::set<std::string> without_preemption{"fifo", "fifo-skip",    "sjf",
                                                        "easy", "conservative", "drf"};
  if (!is_policy(replay.policy())) return {};
  const bool waits = replay.has_power() && spending_of(replay.power()) == JobSpending::wait;
  PolicyTraits traits{.reads_estimates = waits || !without_estimates.contains(replay.policy()),
                      .may_preempt = !without_preemption.contains(replay.policy())};
  const PolicySpec spec = policy_of(replay);
  if (const auto slurm = parameters_of<MultifactorParameters>(spec)) {
    traits.may_preempt = std::any_of(slurm->qos().begin(), slurm->qos().end(),
                                     [](const auto& qos) { return qos.preempts_size() > 0; });
  }
  if (const auto ranked = parameters_of<PriorityParameters>(spec)) {
    traits.may_preempt = ranked->preempt();
  }
  return traits;
}

LogTraits log_traits(const std::vector<TraceJob>& jobs) {
  LogTraits traits;
  for (const TraceJob& job : jobs) {
    traits.has_limits = traits.has_limits || job.requested_s > 0;
    traits.names_kinds = traits.names_kinds || !job.kinds.empty();
  }
  return traits;
}

std::string reason_without_effect(const JobReplay& base, const JobReplay& changed,
                                  const LogTraits& log) {
  const Settings before = settings_of(base, log), after = settings_of(changed, log);
  if (before.read != after.read) return {};
  for (const UnreadKey& each : after.unread) {
    if (value_at(before.given, each.path) != value_at(after.given, each.path)) return each.reason;
  }
  if (before.given["cluster"] != after.given["cluster"]) {
    return "at recorded speed a replay reads the scalable units of the cluster, for placement "
           "topology, and its size, which is the key nodes";
  }
  if (before.given["set"] != after.given["set"]) {
    return fmt::format("{} has the same parameters without the change", changed.policy());
  }
  return "the replay has this value without the change";
}

}  // namespace orrery::sim
