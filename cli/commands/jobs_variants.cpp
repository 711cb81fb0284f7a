#include "cli/commands/jobs_variants.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "policies/parameters.pb.h"
#include "policies/run/registry.hpp"
#include "sim/replay/job_replay.hpp"
#include "sim/replay/replay_change.hpp"
#include "traces/scenario/replay_conditions.hpp"

namespace orrery::cli {
namespace {

constexpr const char* kScheduler = "scheduler";  // name of the policy of --scheduler

std::vector<Variant> all_variants(const JobsOptions& given) {
  std::vector<Variant> variants;
  JobsOptions options = given;
  if (!options.scheduler.empty()) options.policies = {"fifo"};  // the queue that a replay must name
  const auto add = [&](const std::string& change, const std::string& folder) {
    std::vector<std::string> changes;
    if (!change.empty()) changes.push_back(change);
    JobReplay replay = asked_for(options, changes);
    std::vector<std::string> policies = options.policies;
    if (policies.empty()) policies.push_back(replay.policy());
    if (!options.scheduler.empty()) policies = {kScheduler};
    for (std::size_t i = 0; i < policies.size(); ++i) {
      replay.set_policy(policies[i]);
      const std::string label = change.empty() ? policies[i] : policies[i] + ", " + change;
      variants.push_back({.replay = replay,
                          .what_if = change,
                          .label = label,
                          .folder = policies[i] + folder,
                          .base = i});
    }
  };
  add("", "");
  for (std::size_t i = 0; i < options.what_if.size(); ++i) {
    add(options.what_if[i], fmt::format(".what-if-{}", i + 1));
  }
  if (options.choice.policies.empty()) return variants;
  variants.push_back(variants.front());
  Variant& choice = variants.back();
  choice.label = fmt::format("choice from {}", choice.replay.policy());
  choice.folder = "choice";
  choice.chooses = true;
  return variants;
}

/// Throws if options of the reading, which the simulator's process does not get, meet simulated
/// speed.
void check_reading(const JobsOptions& options, const std::vector<Variant>& variants) {
  const bool has_kind = !options.log.gpu_kind.empty();
  if (!has_kind && options.log.columns.empty()) return;
  if (std::none_of(variants.begin(), variants.end(), is_elsewhere)) return;
  throw Error(ErrorKind::usage,
              fmt::format("{0}: expected jobs of recorded speed, got simulated speed: write the "
                          "log with 'orrery import jobs LOG {0} {1} -o jobs.csv' and replay that "
                          "file",
                          has_kind ? "--gpu-kind" : "--columns", has_kind ? "KIND" : "NAMES"));
}

/// Throws if replays with limits of power meet policies that do not know lost GPUs.
void check_power(const JobsOptions& options, const std::vector<Variant>& variants) {
  const bool forecasts = !options.choice.policies.empty();
  if (!forecasts && options.scheduler.empty()) return;
  if (std::none_of(variants.begin(), variants.end(),
                   [](const Variant& each) { return each.replay.has_power(); })) {
    return;
  }
  throw Error(ErrorKind::usage,
              fmt::format("{}: expected a replay without limits of power, which {}, found the key "
                          "'power': leave one of both out",
                          forecasts ? "--choose" : "--scheduler",
                          forecasts ? "forecasts do not have" : "no message of Batsim tells"));
}

/// Removes the variants whose change has no effect on the replay of their policy, and returns a
/// line about each, except for parameters of other policies. Throws a usage error for a change
/// without effect on any replay.
std::vector<std::string> drop_without_effect(std::vector<Variant>& variants,
                                             const std::vector<TraceJob>& log) {
  const sim::LogTraits traits = sim::log_traits(log);
  std::map<std::string, std::size_t> kept;  // keyed by change
  std::map<std::string, std::string> reasons;
  std::vector<std::string> lines;
  std::vector<Variant> effective;
  for (const Variant& each : variants) {
    if (each.what_if.empty()) {
      effective.push_back(each);
      continue;
    }
    std::size_t& count = kept[each.what_if];
    const std::string reason =
        sim::reason_without_effect(variants[each.base].replay, each.replay, traits);
    if (reason.empty()) {
      ++count;
      effective.push_back(each);
      continue;
    }
    reasons.try_emplace(each.what_if, reason);
    const std::string first = each.what_if.substr(0, each.what_if.find_first_of(".="));
    if (!is_policy(first)) lines.push_back(fmt::format("no row {}: {}", each.label, reason));
  }
  for (const auto& [change, count] : kept) {
    if (count > 0) continue;
    throw Error(ErrorKind::usage,
                fmt::format("--what-if '{}': expected a key that changes the replay, found one "
                            "without effect: {}",
                            change, reasons.at(change)));
  }
  variants = std::move(effective);
  return lines;
}

/// Replays without a kind of estimates use those that a scheduler has, because a choice from the
/// recorded durations would be one from the future.
void use_known_estimates(std::vector<Variant>& variants, const std::vector<TraceJob>& log) {
  for (Variant& each : variants) {
    if (each.replay.estimates().empty()) each.replay.set_estimates(known_estimates(log));
  }
}

/// Adds the rules of --qos and --reservations to the replays under multifactor.
void add_slurm_rules(const JobsOptions& options, std::vector<Variant>& variants,
                     const JobLog& log) {
  std::vector<std::string> policies;
  for (const Variant& each : variants) policies.push_back(each.replay.policy());
  check_slurm_files(options.slurm, policies);
  const std::vector<std::string> nodes =
      options.slurm.reservations.empty() ? std::vector<std::string>{} : node_names(options);
  for (Variant& each : variants) add_slurm_files(options.slurm, log, nodes, each.replay);
}

/// Prints a warning for each quota of max-min whose virtual cluster has no job in the log.
void warn_of_quotas(const JobReplay& replay, const std::vector<TraceJob>& log) {
  MaxMinParameters parameters;
  if (!is_policy(replay.policy()) || !policy_of(replay).parameters().UnpackTo(&parameters)) return;
  for (const MaxMinParameters::Quota& quota : parameters.quotas()) {
    const bool known = std::any_of(log.begin(), log.end(), [&quota](const TraceJob& job) {
      return job.pool.str() == quota.vc();
    });
    if (known) continue;
    fmt::print(stderr,
               "warning: max-min.quotas: no job of {} belongs to the virtual cluster '{}', so its "
               "{} GPUs are lent to the others\n",
               replay.trace(), quota.vc(), quota.gpus());
  }
}

/// Settles the slices of GPUs of all replays. Forecasts and simulated speed count whole GPUs, and
/// so do the replays beside them.
void settle_slices(const JobsOptions& options, std::vector<Variant>& variants,
                   const std::vector<TraceJob>& jobs) {
  const bool whole = !options.choice.policies.empty() ||
                     std::any_of(variants.begin(), variants.end(), is_elsewhere);
  for (Variant& variant : variants) {
    if (whole) sim::count_parts_whole(variant.replay, jobs);
    sim::settle_slices(variant.replay, jobs);
  }
}

}  // namespace

bool is_elsewhere(const Variant& variant) {
  return speed_of(variant.replay.conditions()) == JobSpeed::simulated;
}

std::vector<Variant> variants_of(const JobsOptions& given) {
  std::vector<Variant> variants = all_variants(given);
  check_reading(given, variants);
  check_power(given, variants);
  return variants;
}

std::vector<Variant> complete_variants(const JobsOptions& options, const JobLog& log,
                                       std::vector<Variant> variants,
                                       std::vector<std::string>& remarks) {
  add_slurm_rules(options, variants, log);
  settle_slices(options, variants, log.jobs);
  if (!options.choice.policies.empty()) use_known_estimates(variants, log.jobs);
  for (const Variant& variant : variants) {
    check_estimates(variant.replay, log.jobs);
    warn_of_quotas(variant.replay, log.jobs);
  }
  remarks = drop_without_effect(variants, log.jobs);
  return variants;
}

}  // namespace orrery::cli
