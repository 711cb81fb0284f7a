#include "cli/shared/cluster_status.hpp"

#include <chrono>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/schema/names.hpp"
#include "live/run/files/run_files.hpp"
#include "topologies/part.hpp"

namespace orrery::cli {

std::string set_name(const ParameterSet& set) {
  return set.policy.empty() ? set.parameter : fmt::format("{}.{}", set.policy, set.parameter);
}

ClusterStatus::ClusterStatus(std::string name, std::string metrics,
                             std::vector<std::string> policies, Objection objection)
    : name_(std::move(name)),
      policies_(std::move(policies)),
      objection_(std::move(objection)),
      file_(folder_.path(), std::move(metrics)) {}

// ---- questions ------------------------------------------------------------------------------

void ClusterStatus::add_question(const Decision& decision, std::string what) {
  add_line(fmt::format("decision {} asks: {}: {}", decision.id, what, decision.why));
  questions_.push_back({decision.id, elapsed(), std::move(what), decision.why});
}

bool ClusterStatus::forget_question(std::uint64_t decision) {
  return std::erase_if(questions_, [decision](const Question& open) {
           return open.decision == decision;
         }) > 0;
}

bool ClusterStatus::close_question(std::uint64_t decision) {
  if (forget_question(decision)) return true;
  add_line(fmt::format("{}decision {}: expected a decision that waits for an answer, found one "
                       "that has been answered, has expired or never asked",
                       live::kOrderRefused, decision));
  return false;
}

void ClusterStatus::record_outcome(const Decided& outcome, bool adds_line) {
  static constexpr const char* kNames[] = {"applied", "rejected", "expired"};
  ++outcomes_;
  forget_question(outcome.decision);
  if (!adds_line) return;
  add_line(fmt::format("decision {} {}{}{}", outcome.decision,
                       kNames[static_cast<std::size_t>(outcome.status)],
                       outcome.reason.empty() ? "" : ": ", outcome.reason));
}

// ---- orders ---------------------------------------------------------------------------------

void ClusterStatus::read_orders() {
  if (live::Clock::now() - looked_ < std::chrono::milliseconds(live::kLookMs)) return;
  looked_ = live::Clock::now();
  std::error_code unknown;
  for (live::Order& order : live::read_orders(folder_.path())) {
    std::filesystem::remove(order.file, unknown);
    carry_out(order);
  }
  if (is_stopped_) return;
  is_stopped_ = std::filesystem::exists(folder_.path() + live::kStopFile, unknown);
  if (is_stopped_) add_line("the run is to end: stopped by the operator");
}

void ClusterStatus::carry_out(live::Order& order) {
  std::string fault = order.fault;
  if (order.verdict) {
    if (close_question(order.verdict->decision)) verdicts_.push_back(std::move(*order.verdict));
  } else if (order.set) {
    const std::string name = set_name(*order.set);
    fault = objection_(*order.set);
    if (!fault.empty()) fault = fmt::format("{}: {}", name, fault);
    if (fault.empty()) {
      add_line(fmt::format("{} = {} holds from the next reading on", name, order.set->value));
      parameters_.push_back(std::move(*order.set));
    }
  } else if (order.removal) {
    fault = fmt::format("{}: expected an order that this run carries out (set, approve, refuse, "
                        "stop), got a drain; drain the node with scontrol or kubectl",
                        part_name(order.removal->part));
  }
  if (!fault.empty()) add_line(std::string(live::kOrderRefused) + fault);
}

// ---- figures --------------------------------------------------------------------------------

void ClusterStatus::follow_leases(const ClusterFigures& figures) {
  if (figures.counts.leases > lease_commands_) renewed_ = elapsed();
  lease_commands_ = figures.counts.leases;
}

nlohmann::ordered_json ClusterStatus::fields_of(const ClusterFigures& figures) const {
  using nlohmann::ordered_json;
  const live::QueueCluster::Counts& counts = figures.counts;
  ordered_json out{{"kind", std::string(kClusterKind)},
                   {"scenario", name_},
                   {"mode", std::string(name_of(figures.mode))},
                   {"phase", std::string(name_of(figures.phase))},
                   {"policy", figures.policy},
                   {"policies", policies_},
                   {"elapsed_s", to_seconds(elapsed())},
                   {"nodes", figures.nodes},
                   {"gpus_per_node", figures.gpus_per_node},
                   {"waiting", figures.waiting},
                   {"running", figures.running},
                   {"orders", figures.orders},
                   {"starts", counts.starts},
                   {"stops", counts.stops},
                   {"decisions", outcomes_},
                   {"readings", counts.readings},
                   {"failed_readings", counts.failed_readings},
                   {"slowest_reading_ms", static_cast<double>(counts.slowest.count()) / 1e6},
                   {"complaints", counts.complaints},
                   {"lease_s", figures.lease_s},
                   {"lease_commands", counts.leases},
                   {"lease_renewed_s", nullptr},
                   {"lease_state", figures.lease_text},
                   {"keeps_checkpoints", false},
                   {"questions", ordered_json::array()}};
  if (renewed_) out["lease_renewed_s"] = to_seconds(*renewed_);
  for (const Question& open : questions_) {
    out["questions"].push_back({{"decision", open.decision},
                                {"at_s", to_seconds(open.at)},
                                {"what", open.what},
                                {"why", open.why}});
  }
  return out;
}

std::string ClusterStatus::metrics_of(const ClusterFigures& figures) const {
  const live::QueueCluster::Counts& counts = figures.counts;
  const std::string run = fmt::format("cluster=\"{}\"", live::metric_label(name_));
  std::string out;
  const auto add = [&](const char* name, const char* kind, const char* help, auto value) {
    out += live::metric_family(std::string("cluster_") + name, kind, help, run,
                               static_cast<double>(value));
  };
  add("jobs_waiting", "gauge", "Jobs that wait.", figures.waiting);
  add("jobs_running", "gauge", "Jobs that have GPUs.", figures.running);
  add("orders_open", "gauge", "Orders that the scheduler has not carried out yet.", figures.orders);
  add("questions_open", "gauge", "Decisions that wait for an approval.", questions_.size());
  add("acts", "gauge", "1 if commands are sent: the mode is not shadow, the kill switch is off.",
      figures.mode != HandOverMode::shadow && figures.phase == ClusterPhase::running ? 1 : 0);
  add("starts_total", "counter", "Starts that were ordered.", counts.starts);
  add("stops_total", "counter", "Stops that were ordered.", counts.stops);
  add("decisions_total", "counter", "Decisions that have an outcome.", outcomes_);
  add("readings_total", "counter", "Readings of the cluster.", counts.readings);
  add("readings_failed_total", "counter", "Readings that failed.", counts.failed_readings);
  add("slowest_reading_seconds", "gauge", "Duration of the slowest reading.",
      std::chrono::duration<double>(counts.slowest).count());
  add("lease_commands_total", "counter", "Commands that renewed leases.", counts.leases);
  add("complaints_total", "counter", "Commands that the scheduler refused.", counts.complaints);
  out +=
      "# HELP orrery_cluster_policy_active 1 if the policy decides.\n"
      "# TYPE orrery_cluster_policy_active gauge\n";
  for (const std::string& policy : policies_) {
    out += fmt::format("orrery_cluster_policy_active{{{},policy=\"{}\"}} {}\n", run,
                       live::metric_label(policy), policy == figures.policy ? 1 : 0);
  }
  return out;
}

void ClusterStatus::publish_status(const ClusterFigures& figures) {
  follow_leases(figures);
  file_.publish_status(fields_of(figures), file_.has_metrics() ? metrics_of(figures) : "");
}

void ClusterStatus::show_last(const ClusterFigures& figures) {
  follow_leases(figures);
  file_.show_last(fields_of(figures), file_.has_metrics() ? metrics_of(figures) : "");
}

}  // namespace orrery::cli
