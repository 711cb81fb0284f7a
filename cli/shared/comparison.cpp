#include "cli/shared/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/schema/json.hpp"

namespace orrery::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<const char*, double (Phases::*)() const> kPhases[] = {
    {"compute", &Phases::compute_s},
    {"exchange", &Phases::exchange_s},
    {"update", &Phases::update_s},
    {"rest", &Phases::rest_s}};

std::string milliseconds(double seconds) { return fmt::format("{:.2f} ms", seconds * 1e3); }

std::string line(const char* what, double predicted, double measured) {
  return fmt::format("  {:<10}{:>14}{:>14}{:>14}\n", what, milliseconds(predicted),
                     milliseconds(measured),
                     fmt::format("{:+.2f} ms", (predicted - measured) * 1e3));
}

template <class Value>
std::vector<std::size_t> order_by(std::size_t count, const Value& value) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return value(a) < value(b); });
  return order;
}

/// Returns the seconds from each loss until the remaining ranks work again.
std::vector<double> lost_seconds(const Report& report) {
  std::vector<double> seconds;
  for (const FailureReport& each : report.failures()) {
    if (each.has_working_s()) seconds.push_back(each.working_s() - each.time_s());
  }
  return seconds;
}

std::string lost_text(const Report& report) {
  std::string text;
  for (const double each : lost_seconds(report)) {
    text += (text.empty() ? "" : ", ") + milliseconds(each);
  }
  return text.empty() ? "nothing" : text;
}

Json world_json(const Report& report) {
  Json out = {{"step_time_s", report.step_time_s()}};
  for (const auto& [name, of] : kPhases) {
    out[std::string(name) + "_s"] = (report.phases().*of)();
  }
  if (report.failures_size() > 0) {
    out["lost_s"] = lost_seconds(report);
    if (report.has_ranks_at_end()) out["ranks_at_end"] = report.ranks_at_end();
  }
  if (report.has_bytes_on_wire()) out["bytes_on_wire"] = report.bytes_on_wire();
  if (report.has_decisions()) out["decisions"] = report.decisions();
  out["codecs"] = Json::array();
  for (const CodecUse& use : report.codecs()) out["codecs"].push_back(to_json(use));
  return out;
}

/// Returns the bytes on the wire of one step in MB; 0 if the report has none.
double megabytes_of_step(const Report& report) {
  if (!report.has_bytes_on_wire() || report.steps_completed() == 0) return 0;
  return report.bytes_on_wire() / static_cast<double>(report.steps_completed()) / 1e6;
}

/// Returns the gain of the policies and the bytes of their gradients, as text for people.
std::string gain_text(const Comparison& run) {
  std::string text = fmt::format(
      "  gain of {}: predicted {:+.1f}%, measured {:+.1f}% of the step\n",
      fmt::join(run.policies, ", "), 100 * run.predicted_gain(), 100 * run.measured_gain());
  text += fmt::format("  decisions: predicted {}, measured {}\n", run.predicted.decisions(),
                      run.measured.decisions());
  return text +
         fmt::format("  gradients on the wire: predicted {:.3f} MB a step, measured {:.3f} MB\n",
                     megabytes_of_step(run.predicted), megabytes_of_step(run.measured));
}

Json comparison_fields(const Comparison& run, double tolerance) {
  Json measured = world_json(run.measured);
  measured["p10_s"] = run.quantile(0.1);
  measured["p90_s"] = run.quantile(0.9);
  return {{"scenario", run.name},
          {"ranks", run.measured.ranks()},
          {"predicted", world_json(run.predicted)},
          {"measured", std::move(measured)},
          {"error", run.error()},
          {"within", run.is_within(tolerance)}};
}

}  // namespace

double Comparison::predicted_gain() const {
  return 1 - predicted.step_time_s() / without_policies->predicted.step_time_s();
}

double Comparison::measured_gain() const {
  return 1 - measured.step_time_s() / without_policies->measured.step_time_s();
}

double Comparison::error() const { return predicted.step_time_s() / measured.step_time_s() - 1; }

double Comparison::quantile(double share) const {
  std::vector<double> sorted(measured.step_times_s().begin(), measured.step_times_s().end());
  if (sorted.empty()) return 0;
  std::sort(sorted.begin(), sorted.end());
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5)];
}

bool Comparison::is_within(double tolerance) const { return std::abs(error()) <= tolerance; }

std::vector<std::size_t> predicted_order(const std::vector<Comparison>& runs) {
  return order_by(runs.size(), [&](std::size_t i) { return runs[i].predicted.step_time_s(); });
}

std::vector<std::size_t> measured_order(const std::vector<Comparison>& runs) {
  return order_by(runs.size(), [&](std::size_t i) { return runs[i].measured.step_time_s(); });
}

std::vector<std::pair<std::size_t, std::size_t>> too_close(const std::vector<Comparison>& runs) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  const std::vector<std::size_t> order = measured_order(runs);
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    if (runs[order[i]].quantile(0.9) < runs[order[i + 1]].quantile(0.1)) continue;
    pairs.emplace_back(order[i], order[i + 1]);
  }
  return pairs;
}

std::string comparison_text(const Comparison& run, double tolerance) {
  std::string text;
  if (run.without_policies) text = comparison_text(*run.without_policies, tolerance);
  text += fmt::format("{}: {} ranks, {} live steps\n  {:<10}{:>14}{:>14}{:>14}\n", run.name,
                      run.measured.ranks(), run.measured.steps_completed(), "", "predicted",
                      "measured", "off");
  for (const auto& [name, of] : kPhases) {
    if (!run.measured.has_phases()) break;
    text += line(name, (run.predicted.phases().*of)(), (run.measured.phases().*of)());
  }
  text += line("step", run.predicted.step_time_s(), run.measured.step_time_s());
  if (run.measured.failures_size() > 0) {
    text += fmt::format("  lost in losses of ranks: predicted {}, measured {}\n",
                        lost_text(run.predicted), lost_text(run.measured));
  }
  if (run.without_policies) text += gain_text(run);
  return text + fmt::format(
                    "  the median step is predicted {:+.1f}% off ({} {:.0f}%); live "
                    "steps: p10 {}, p90 {}\n",
                    100 * run.error(), run.is_within(tolerance) ? "within" : "beyond",
                    100 * tolerance, milliseconds(run.quantile(0.1)),
                    milliseconds(run.quantile(0.9)));
}

std::string order_text(const std::vector<Comparison>& runs) {
  const auto names = [&](const std::vector<std::size_t>& order) {
    std::string text;
    for (const std::size_t i : order) text += (text.empty() ? "" : " < ") + runs[i].name;
    return text;
  };
  const std::vector<std::size_t> predicted = predicted_order(runs), measured = measured_order(runs);
  std::string text =
      fmt::format("order predicted  {}\norder measured   {}\n", names(predicted), names(measured));
  for (const auto& [faster, slower] : too_close(runs)) {
    text += fmt::format("too close to tell: {} (p90 {}) and {} (p10 {})\n", runs[faster].name,
                        milliseconds(runs[faster].quantile(0.9)), runs[slower].name,
                        milliseconds(runs[slower].quantile(0.1)));
  }
  return text + (predicted == measured ? "the order is as predicted\n"
                                       : "the order is not as predicted\n");
}

std::string comparison_json(const std::vector<Comparison>& runs, double tolerance) {
  Json out = {{"tolerance", tolerance}, {"runs", Json::array()}};
  for (const Comparison& run : runs) {
    Json fields = comparison_fields(run, tolerance);
    if (run.without_policies) {
      fields["policies"] = run.policies;
      fields["without_policies"] = comparison_fields(*run.without_policies, tolerance);
      fields["gain"] = {{"predicted", run.predicted_gain()}, {"measured", run.measured_gain()}};
    }
    out["runs"].push_back(std::move(fields));
  }
  if (runs.size() < 2) return out.dump(2);
  const auto names = [&](const std::vector<std::size_t>& order) {
    Json list = Json::array();
    for (const std::size_t i : order) list.push_back(runs[i].name);
    return list;
  };
  out["order"] = {{"predicted", names(predicted_order(runs))},
                  {"measured", names(measured_order(runs))},
                  {"as_predicted", predicted_order(runs) == measured_order(runs)},
                  {"too_close", too_close(runs).size()}};
  return out.dump(2);
}

}  // namespace orrery::cli
