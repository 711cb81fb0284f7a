#include "cli/shared/twin_status.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "cli/shared/cluster_status.hpp"
#include "cli/shared/slurm_session.hpp"
#include "live/run/files/run_files.hpp"
#include "live/run/operator/orders.hpp"
#include "topologies/part.hpp"

namespace orrery::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kShownRows = 2000;  // forecasts in the status; now.csv has all

/// Text of metrics that belong to one twin.
class MetricsText {
 public:
  explicit MetricsText(std::string labels) : labels_(std::move(labels)) {}

  /// Begins a family of gauges.
  void begin_family(const std::string& name, const char* help) {
    name_ = name;
    text_ += fmt::format("# HELP orrery_twin_{0} {1}\n# TYPE orrery_twin_{0} gauge\n", name, help);
  }
  /// Adds a value of the family; `labels`: further labels, each after a comma. Adds no value that
  /// is not known.
  void add(double value, const std::string& labels = {}) {
    if (std::isnan(value)) return;
    text_ += fmt::format("orrery_twin_{}{{{}{}}} {}\n", name_, labels_, labels, value);
  }
  const std::string& text() const { return text_; }

 private:
  const std::string labels_;
  std::string name_, text_;
};

std::string label(std::string_view name, std::string_view value) {
  return fmt::format(",{}=\"{}\"", name, live::metric_label(value));
}

/// Adds the time until the next instant of each kind under each policy.
void add_next_instants(const std::vector<ForecastRow>& rows, MetricsText& out) {
  std::map<std::pair<std::string_view, std::string_view>, const sim::InstantForecast*> next;
  for (const ForecastRow& row : rows) {
    const sim::InstantForecast*& of = next[{row.kind, row.policy}];
    if (of == nullptr || row.of.median < of->median) of = &row.of;
  }
  out.begin_family("next_seconds",
                   "Time from the newest forecast to the next instant of a kind.");
  for (const auto& [key, of] : next) {
    const std::string labels = label("kind", key.first) + label("policy", key.second);
    const std::pair<const char*, Nanos> bounds[] = {{"median", of->median},
                                                    {"low80", of->low80},
                                                    {"high80", of->high80},
                                                    {"low95", of->low95},
                                                    {"high95", of->high95}};
    for (const auto& [bound, at] : bounds) {
      if (at != kNever) out.add(to_seconds(at - of->made), labels + label("bound", bound));
    }
  }
}

/// Adds the costs of losing a node; `in_gpu_time`: those in GPU-seconds, or all others.
void add_costs(const std::vector<CostRow>& costs, bool in_gpu_time, MetricsText& out) {
  for (const CostRow& row : costs) {
    if ((row.kind == CostRow::Kind::gpu_time) != in_gpu_time) continue;
    const std::string labels = label("cost", cost_name(row.kind)) + label("policy", row.policy);
    const std::pair<const char*, double> bounds[] = {
        {"mean", row.of.mean},     {"median", row.of.median}, {"low80", row.of.low80},
        {"high80", row.of.high80}, {"low95", row.of.low95},   {"high95", row.of.high95}};
    for (const auto& [bound, value] : bounds) out.add(value, labels + label("bound", bound));
  }
}

/// Adds the score of each kind and horizon.
void add_scores(const TwinFigures& figures, MetricsText& out) {
  const auto add_each = [&](const char* name, const char* help, auto add_row) {
    out.begin_family(name, help);
    for (const auto& [kind, rows] : figures.scores) {
      for (const sim::ScoreRow& row : rows) {
        add_row(row, label("kind", kind) + label("horizon", row.horizon));
      }
    }
  };
  add_each("scored", "Forecasts whose instant is known.",
           [&](const sim::ScoreRow& row, const std::string& labels) {
             out.add(static_cast<double>(row.forecasts), labels);
           });
  add_each("error_median_seconds", "Median of the absolute error of the forecasts.",
           [&](const sim::ScoreRow& row, const std::string& labels) {
             out.add(row.median_error_s, labels);
           });
  add_each("coverage", "Share of the instants inside the interval of their forecast.",
           [&](const sim::ScoreRow& row, const std::string& labels) {
             out.add(row.coverage80, labels + label("interval", "80"));
             out.add(row.coverage95, labels + label("interval", "95"));
           });
}

}  // namespace

TwinStatus::TwinStatus(std::string name, std::string metrics, std::vector<std::string> policies)
    : name_(std::move(name)),
      policies_(std::move(policies)),
      file_(folder_.path(), std::move(metrics)) {
  figures_.choice = policies_.front();
}

void TwinStatus::show_figures(TwinFigures figures) {
  figures_ = std::move(figures);
  now_ = ordered_json::array();
  for (const ForecastRow& row : figures_.now) {
    if (now_.size() == kShownRows) break;
    ordered_json shown{{"job", row.job}, {"kind", row.kind}, {"policy", row.policy}};
    shown["made_s"] = to_seconds(row.of.made);
    shown.update(instant_json(row.of));
    now_.push_back(std::move(shown));
  }
}

// ---- orders ---------------------------------------------------------------------------------

bool TwinStatus::is_to_end() {
  if (live::Clock::now() - looked_ >= std::chrono::milliseconds(live::kLookMs)) {
    looked_ = live::Clock::now();
    read_orders();
  }
  if (file_.is_due()) file_.publish_status(fields(), file_.has_metrics() ? metrics() : "");
  return is_stopped_ || StopSignals::is_stopped();
}

void TwinStatus::read_orders() {
  std::error_code unknown;
  for (const live::Order& order : live::read_orders(folder_.path())) {
    std::filesystem::remove(order.file, unknown);
    std::string subject;
    if (order.set) subject = set_name(*order.set) + ": ";
    if (order.removal) subject = part_name(order.removal->part) + ": ";
    add_line(fmt::format("{}{}expected the order to stop, which is the only one for a twin: it "
                         "changes nothing; give the order to the run that it forecasts",
                         live::kOrderRefused, subject));
  }
  if (is_stopped_) return;
  is_stopped_ = std::filesystem::exists(folder_.path() + live::kStopFile, unknown);
  if (is_stopped_) add_line("the twin is to end: stopped by the operator");
}

// ---- figures --------------------------------------------------------------------------------

ordered_json TwinStatus::fields() const {
  ordered_json out{{"kind", std::string(kTwinKind)},
                   {"scenario", name_},
                   {"mode", "shadow"},
                   {"phase", is_stopped_ || StopSignals::is_stopped() ? "ending" : "running"},
                   {"policy", policies_.front()},
                   {"policies", policies_},
                   {"choice", figures_.choice},
                   {"elapsed_s", to_seconds(live::since(began_))},
                   {"forecasts", figures_.forecasts},
                   {"keeps_checkpoints", false}};
  for (const auto& [name, count] : figures_.counts) out[name] = count;
  out["now"] = now_;
  out["now_left_out"] = figures_.now.size() - now_.size();
  out["node_loss"] = ordered_json::array();
  for (const CostRow& row : figures_.costs) {
    ordered_json shown{
        {"cost", cost_name(row.kind)}, {"policy", row.policy}, {"made_s", to_seconds(row.made)}};
    shown.update(cost_json(row.of));
    out["node_loss"].push_back(std::move(shown));
  }
  out["regret"] = ordered_json::object();
  for (const auto& [goal, value] : figures_.regret) out["regret"][goal] = value;
  out["score"] = figures_.score;
  return out;
}

std::string TwinStatus::metrics() const {
  MetricsText out(fmt::format("twin=\"{}\"", live::metric_label(name_)));
  out.begin_family("forecasts", "Forecasts so far.");
  out.add(static_cast<double>(figures_.forecasts));
  out.begin_family("forecast_p99_seconds", "Duration of the forecasts, 99th percentile.");
  out.add(figures_.times.p99_ms / 1e3);
  for (const auto& [name, count] : figures_.counts) {
    out.begin_family(name, "Count at the newest forecast.");
    out.add(static_cast<double>(count));
  }
  add_next_instants(figures_.now, out);
  out.begin_family("node_loss_seconds", "Cost of losing a node at the newest forecast.");
  add_costs(figures_.costs, false, out);
  out.begin_family("node_loss_gpu_seconds", "Work that begins anew after the loss of a node.");
  add_costs(figures_.costs, true, out);
  add_scores(figures_, out);
  out.begin_family("regret", "Mean of the active policy's goal less that of the best policy.");
  for (const auto& [goal, value] : figures_.regret) out.add(value, label("goal", goal));
  out.begin_family("choice_active", "1 if the rule of the choice has this policy.");
  for (const std::string& policy : policies_) {
    out.add(policy == figures_.choice ? 1 : 0, label("policy", policy));
  }
  return out.text();
}

void TwinStatus::show_last() {
  file_.show_last(fields(), file_.has_metrics() ? metrics() : "");
}

}  // namespace orrery::cli
