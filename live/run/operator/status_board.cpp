#include "live/run/operator/status_board.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "policies/seam/decision.hpp"
#include "policies/seam/part_changes.hpp"

namespace orrery::live {
namespace {

std::string names_of(const std::vector<RankId>& ranks) {
  std::vector<std::uint32_t> numbers;
  for (const RankId rank : ranks) numbers.push_back(rank.value);
  return fmt::format("rank{} {}", numbers.size() == 1 ? "" : "s", fmt::join(numbers, ", "));
}

/// Returns the instant or step of a removal or return, for example "at 90.0 s" or "before step 20";
/// empty if neither is stated.
std::string moment_name(std::optional<Nanos> at, std::optional<Step> at_step) {
  if (at) return fmt::format("at {:.1f} s", to_seconds(*at));
  return at_step ? fmt::format("before step {}", *at_step) : "";
}

/// Conversion of events to lines.
struct Line {
  std::string operator()(const PartChanged& event) const {
    if (!event.to.removal && is_slower(event.to)) {
      return fmt::format("{} works at {:.4g} % of its rate", part_name(event.part),
                         100 * event.to.rate);
    }
    if (!event.to.removal) return {};
    const Removal& what = *event.to.removal;
    if (event.to.health == Health::lost) return part_name(event.part) + " is removed as announced";
    const std::string back = moment_name(what.back_at, what.back_at_step);
    return fmt::format("{} is to be removed {}{}{}", part_name(event.part),
                       moment_name(what.at, what.at_step), back.empty() ? "" : "; back ", back);
  }
  std::string operator()(const RanksLost& event) const {
    return fmt::format("lost {}; membership {}", names_of(event.ranks), event.epoch.value);
  }
  std::string operator()(const RanksSuspected& event) const {
    return event.ranks.empty() ? "all ranks send heartbeats again"
                               : fmt::format("{} silent", names_of(event.ranks));
  }
  std::string operator()(const JobHeld&) const {
    return "training is on hold until a policy assigns GPUs";
  }
  std::string operator()(const JobStarted& event) const {
    return fmt::format("training with {} ranks from step {}; membership {}",
                       event.where.gpus.size(), event.from, event.epoch.value);
  }
  std::string operator()(const SaveDone& event) const {
    return fmt::format("checkpoint of step {} {}", event.step,
                       event.durable ? "is durable" : "failed");
  }
  std::string operator()(const Decided& event) const {
    constexpr const char* kOutcomes[] = {"applied", "rejected", "expired"};
    return fmt::format("decision {} {}{}{}", event.decision,
                       kOutcomes[static_cast<std::size_t>(event.status)],
                       event.reason.empty() ? "" : ": ", event.reason);
  }
  std::string operator()(const JobDone&) const { return "training is done"; }
  std::string operator()(const ParameterSet& event) const {
    return fmt::format("the operator has set {}.{} = {}", event.policy, event.parameter,
                       event.value);
  }
  template <class Other>
  std::string operator()(const Other&) const {
    return {};
  }
};

nlohmann::ordered_json removals_of(const RunStatus& status) {
  const auto seconds = [](std::optional<Nanos> at) {
    return at ? nlohmann::ordered_json(to_seconds(*at)) : nlohmann::ordered_json();
  };
  const auto step = [](std::optional<Step> at) {
    return at ? nlohmann::ordered_json(*at) : nlohmann::ordered_json();
  };
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const auto& [part, health, what] : status.removals) {
    out.push_back({{"part", part_name(part)},
                   {"removed", health == Health::lost},
                   {"at_s", seconds(what.at)},
                   {"at_step", step(what.at_step)},
                   {"back_at_s", seconds(what.back_at)},
                   {"back_at_step", step(what.back_at_step)}});
  }
  return out;
}

nlohmann::ordered_json json_of(const RunStatus& status) {
  nlohmann::ordered_json out;
  out["scenario"] = status.scenario;
  out["mode"] = status.mode;
  out["phase"] = status.phase;
  out["log"] = status.log;
  out["step"] = status.step;
  out["steps"] = status.steps;
  out["elapsed_s"] = status.elapsed_s;
  out["step_time_s"] = status.step_time_s;
  out["loss"] = status.loss;
  out["samples"] = status.samples;
  out["batch"] = status.batch;
  out["learning_rate_factor"] = status.learning_rate_factor;
  out["delay_s"] = status.delay_s;
  out["epoch"] = status.epoch;
  out["losses"] = status.losses;
  out["ranks_missing"] = status.ranks_missing;
  out["decisions"] = status.decisions;
  out["controller_restarts"] = status.controller_restarts;
  out["checkpoints_written"] = status.checkpoints_written;
  out["checkpoints_failed"] = status.checkpoints_failed;
  out["keeps_checkpoints"] = status.keeps_checkpoints;
  out["saved_step"] = nullptr;
  if (status.saved) out["saved_step"] = *status.saved;
  out["policies"] = status.policies;
  out["policy_time_s"] = status.policy_time_s;
  out["policy_waiting_s"] = nullptr;
  if (status.policy_waiting_s) out["policy_waiting_s"] = *status.policy_waiting_s;
  out["policy_asked"] = status.policy_asked;
  out["without_takeover"] = status.without_takeover;
  out["questions"] = nlohmann::ordered_json::array();
  for (const RunStatus::Question& open : status.questions) {
    out["questions"].push_back(
        {{"decision", open.decision}, {"at_s", open.at_s}, {"what", open.what}, {"why", open.why}});
  }
  out["removals"] = removals_of(status);
  out["slower"] = nlohmann::ordered_json::array();
  for (const RunStatus::SlowerPart& each : status.slower) {
    out["slower"].push_back(
        {{"part", part_name(each.part)}, {"rate", each.rate}, {"since_s", each.since_s}});
  }
  out["ranks"] = nlohmann::ordered_json::array();
  for (const RunStatus::Rank& rank : status.ranks) {
    out["ranks"].push_back({{"rank", rank.rank},
                            {"state", rank.state},
                            {"pid", rank.pid},
                            {"step", rank.step},
                            {"micro_batches", rank.micro_batches}});
  }
  return out;
}

/// Adds a measurement of the ranks' GPUs under the name that NVIDIA's DCGM exporter uses, so that
/// dashboards for DCGM show this run. Adds nothing if no driver reports the measurement.
template <class Value>
void add_device_metric(std::string& out, const RunStatus& status, const char* name,
                       const char* help, const Value& value) {
  std::string lines;
  for (const RunStatus::Rank& rank : status.ranks) {
    const std::optional<double> known = value(rank.device);
    if (!known) continue;
    lines += fmt::format("{}{{scenario=\"{}\",gpu=\"{}\"}} {}\n", name,
                         metric_label(status.scenario), rank.rank, *known);
  }
  if (lines.empty()) return;
  out += fmt::format("# HELP {0} {1}\n# TYPE {0} gauge\n{2}", name, help, lines);
}

void add_device_metrics(std::string& out, const RunStatus& status) {
  constexpr double kPercent = 100, kMiB = 1 << 20;
  using Known = std::optional<double>;
  add_device_metric(out, status, "DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).",
                    [](const DeviceReading& of) {
                      return of.has_utilization() ? Known(kPercent * of.utilization()) : Known();
                    });
  add_device_metric(out, status, "DCGM_FI_DEV_MEM_COPY_UTIL", "Memory utilization (in %).",
                    [](const DeviceReading& of) {
                      return of.has_memory_bandwidth() ? Known(kPercent * of.memory_bandwidth())
                                                       : Known();
                    });
  add_device_metric(out, status, "DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).",
                    [](const DeviceReading& of) {
                      return of.has_memory_used() ? Known(of.memory_used() / kMiB) : Known();
                    });
  add_device_metric(
      out, status, "DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).",
      [](const DeviceReading& of) { return of.has_power() ? Known(of.power()) : Known(); });
}

}  // namespace

std::string describe(const Event& event) { return std::visit(Line{}, event); }

std::string prometheus_text(const RunStatus& status) {
  std::string out;
  const std::string run = fmt::format("scenario=\"{}\"", metric_label(status.scenario));
  const auto add = [&](const char* name, const char* kind, const char* help, double value) {
    out += metric_family(name, kind, help, run, value);
  };
  add("steps_total", "counter", "Committed steps.", static_cast<double>(status.step));
  add("steps_planned", "gauge", "Steps of the whole run.", static_cast<double>(status.steps));
  add("elapsed_seconds", "gauge", "Time since the first step began.", status.elapsed_s);
  add("step_seconds", "gauge", "Duration of the newest step.", status.step_time_s);
  add("samples", "gauge", "Sequences of the committed steps.", static_cast<double>(status.samples));
  add("batch", "gauge", "Micro-batches of a step.", static_cast<double>(status.batch));
  add("loss", "gauge", "Mean training loss of the newest step, nats per token.", status.loss);
  add("membership_epoch", "gauge", "Grows with every change of membership.",
      static_cast<double>(status.epoch));
  add("ranks_lost_total", "counter", "Ranks that were lost.", static_cast<double>(status.losses));
  add("decisions_total", "counter", "Decisions that have an outcome.",
      static_cast<double>(status.decisions));
  add("policy_seconds_total", "counter", "Real time of all calls of the policies.",
      status.policy_time_s);
  add("controller_restarts_total", "counter", "Controllers that have died.",
      static_cast<double>(status.controller_restarts));
  add("takeover_possible", "gauge", "1 if a new controller could take over.",
      status.without_takeover.empty() ? 1 : 0);
  add("checkpoints_written_total", "counter", "Checkpoints that became durable.",
      static_cast<double>(status.checkpoints_written));
  add("checkpoints_failed_total", "counter", "Checkpoints that failed.",
      static_cast<double>(status.checkpoints_failed));
  out +=
      "# HELP orrery_rank_working 1 if the rank works on the current step.\n"
      "# TYPE orrery_rank_working gauge\n";
  for (const RunStatus::Rank& rank : status.ranks) {
    out += fmt::format("orrery_rank_working{{scenario=\"{}\",rank=\"{}\"}} {}\n",
                       metric_label(status.scenario), rank.rank, rank.state == "working" ? 1 : 0);
  }
  add_device_metrics(out, status);
  return out;
}

void StatusBoard::publish_status(const RunStatus& status) {
  file_.publish_status(json_of(status), file_.has_metrics() ? prometheus_text(status) : "");
}

void StatusBoard::show_last(const RunStatus& status) {
  file_.show_last(json_of(status), file_.has_metrics() ? prometheus_text(status) : "");
}

}  // namespace orrery::live
