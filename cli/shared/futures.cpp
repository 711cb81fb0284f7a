#include "cli/shared/futures.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/shared/run_options.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "core/schema/json.hpp"
#include "core/units.hpp"
#include "traces/report/report.hpp"

namespace orrery::cli {
namespace {

constexpr std::int64_t kMostFutures = 1'000'000;

Nanos time_of(const std::string& option, const std::string& text) {
  const std::optional<double> seconds = parse_quantity(text, Dimension::time);
  if (seconds && *seconds >= 0 && *seconds < 9e9) return to_nanos(*seconds);
  throw Error(ErrorKind::usage,
              fmt::format("{} takes a time such as '1 h' or '90 s', not '{}'", option, text));
}

/// Figure of a future, and its format.
struct Figure {
  const char* key;
  const char* name;
  std::optional<double> (*of)(const FutureEnd&);
  std::string (*shown)(double);
};

std::string seconds(double value) { return format_quantity(value, Dimension::time); }

const std::vector<Figure>& figures() {
  static const std::vector<Figure> all{
      {"steps_ahead", "steps ahead",
       [](const FutureEnd& end) -> std::optional<double> {
         if (!end.has_steps_ahead()) return {};
         return static_cast<double>(end.steps_ahead());
       },
       [](double value) { return fmt::format("{:.0f}", value); }},
      {"goodput_ahead", "goodput ahead",
       [](const FutureEnd& end) -> std::optional<double> {
         if (!end.has_goodput_ahead()) return {};
         return end.goodput_ahead();
       },
       [](double value) { return fmt::format("{:.2f}%", 100 * value); }},
      {"step_time_s", "step time",
       [](const FutureEnd& end) -> std::optional<double> {
         if (!end.report().has_step_time_s()) return {};
         return end.report().step_time_s();
       },
       seconds},
      {"end_s", "end",
       [](const FutureEnd& end) -> std::optional<double> {
         if (!end.has_end_s()) return {};
         return end.end_s();
       },
       seconds}};
  return all;
}

constexpr double kQuantiles[] = {0.05, 0.25, 0.5, 0.75, 0.95};

/// Returns the smallest of the known values, ascending, that is not below a fraction `q` of them.
double quantile(const std::vector<double>& sorted, double q) {
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

std::vector<double> sorted_values(const FuturesReport& all, std::uint32_t choice,
                                  const Figure& figure) {
  std::vector<double> values;
  for (const FutureEnd& future : all.futures()) {
    if (future.choice() != choice || !future.has_report()) continue;
    if (const auto value = figure.of(future)) values.push_back(*value);
  }
  std::sort(values.begin(), values.end());
  return values;
}

std::vector<std::string> names_of(const FuturesOptions& options) {
  if (options.policies.empty()) return {"the run's own"};
  return options.policies;
}

/// Returns the number of futures in which `choice` has more goodput than the first choice, and the
/// number of futures that could be compared.
std::pair<std::size_t, std::size_t> further_than_first(const FuturesReport& all,
                                                       std::uint32_t choice,
                                                       std::uint32_t choices) {
  std::size_t further = 0, compared = 0;
  for (int i = 0; i + static_cast<int>(choice) < all.futures_size();
       i += static_cast<int>(choices)) {
    const FutureEnd& first = all.futures(i);
    const FutureEnd& other = all.futures(i + static_cast<int>(choice));
    if (!first.has_goodput_ahead() || !other.has_goodput_ahead()) continue;
    ++compared;
    further += other.goodput_ahead() > first.goodput_ahead();
  }
  return {further, compared};
}

void print_tables(const FuturesOptions& options, const FuturesReport& all) {
  const std::string until =
      all.until() == 0 ? std::string("its end") : seconds(to_seconds(all.until()));
  fmt::print("{:<16}{} of {}, from {} (step {}) to {}, seed {}\n", "futures", options.count,
             all.begun().scenario(), seconds(to_seconds(all.at())), all.begun().steps_completed(),
             until, all.begun().seed());
  const auto names = names_of(options);
  for (std::uint32_t choice = 0; choice < names.size(); ++choice) {
    fmt::print("\n{:<16}", names[choice]);
    for (const double q : kQuantiles) fmt::print("{:>12}", fmt::format("{:.0f}%", 100 * q));
    fmt::print("\n");
    for (const Figure& figure : figures()) {
      const std::vector<double> values = sorted_values(all, choice, figure);
      if (values.empty()) continue;
      fmt::print("  {:<14}", figure.name);
      for (const double q : kQuantiles) fmt::print("{:>12}", figure.shown(quantile(values, q)));
      fmt::print("\n");
    }
    if (choice == 0) continue;
    const auto [further, compared] =
        further_than_first(all, choice, static_cast<std::uint32_t>(names.size()));
    fmt::print("  more goodput than {} in {} of {} futures\n", names[0], further, compared);
  }
  const HostUse& host = all.begun().host();
  fmt::print("\n{:<16}{} wall, {} CPU\n", "this machine", seconds(host.wall_s()),
             seconds(host.cpu_s()));
}

nlohmann::ordered_json quantiles_of(const FuturesReport& all, std::uint32_t choice) {
  nlohmann::ordered_json out;
  for (const Figure& figure : figures()) {
    const std::vector<double> values = sorted_values(all, choice, figure);
    out[figure.key] = nullptr;
    for (const double q : kQuantiles) {
      if (values.empty()) break;
      out[figure.key][fmt::format("p{:02.0f}", 100 * q)] = quantile(values, q);
    }
  }
  return out;
}

/// Returns a future as JSON, without the lists of single steps.
nlohmann::ordered_json as_json(const FutureEnd& future, const std::vector<std::string>& names) {
  nlohmann::ordered_json out;
  out["future"] = future.future();
  out["policy"] = names[future.choice()];
  for (const Figure& figure : figures()) {
    const auto value = figure.of(future);
    out[figure.key] = value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  }
  out["report"] = nullptr;
  if (future.has_report()) {
    Report plain = future.report();
    plain.clear_step_times_s();
    out["report"] = nlohmann::ordered_json::parse(report_json(plain));
  }
  out["failure"] = nullptr;
  if (future.has_failure()) out["failure"] = future.failure().message();
  return out;
}

void print_json(const FuturesOptions& options, const FuturesReport& all) {
  nlohmann::ordered_json out;
  const auto names = names_of(options);
  out["at_s"] = to_seconds(all.at());
  out["until_s"] = nullptr;
  if (all.until() > 0) out["until_s"] = to_seconds(all.until());
  out["steps_completed"] = all.begun().steps_completed();
  for (std::uint32_t choice = 0; choice < names.size(); ++choice) {
    out["policies"][names[choice]] = quantiles_of(all, choice);
  }
  out["futures"] = nlohmann::ordered_json::array();
  for (const FutureEnd& future : all.futures()) out["futures"].push_back(as_json(future, names));
  out["host"] = to_json(all.begun().host());
  fmt::print("{}\n", out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace

void FuturesOptions::add(CLI::App& command) {
  whole_number(*command.add_option("--futures", count,
                                   "continue from --at in N futures, which differ in their "
                                   "randomness"),
               1, kMostFutures)
      .type_name("N");
  command.add_option("--at", at, "instant of the run's clock at which the futures begin")
      ->type_name("TIME");
  command
      .add_option("--for", ahead,
                  "end each future this long after --at (default: when its "
                  "run is done)")
      ->type_name("TIME");
  command
      .add_option("--policies", policies,
                  "run each future once under each of these policies, instead of the run's own")
      ->type_name("A,B,...")
      ->delimiter(',')
      ->allow_extra_args(false);
}

void FuturesOptions::fill(RunRequest& request, std::optional<Nanos> begun) const {
  if (!has_futures()) {
    if (at.empty() && ahead.empty() && policies.empty()) return;
    throw Error(ErrorKind::usage,
                "expected --futures N with --at, --for or --policies, got "
                "none: add it");
  }
  if (at.empty() && !begun)
    throw Error(ErrorKind::usage,
                "expected --at with --futures, got "
                "none: give the instant at which the "
                "futures begin");
  FuturesOrder& order = *request.mutable_futures();
  order.set_count(count);
  order.set_at(at.empty() ? *begun : time_of("--at", at));
  if (!ahead.empty()) {
    request.set_until(order.at() + time_of("--for", ahead));
    if (request.until() <= order.at()) {
      throw Error(ErrorKind::usage, "--for is the time after --at: more than 0 s");
    }
  }
}

int show_futures(const FuturesOptions& options, const RunRequest& request,
                 const FuturePolicies& policies, const SourceMap& places, bool json) {
  const FuturesReport all = run_futures(Worker::sim, request, policies, places);
  bool failed = false;
  for (const FutureEnd& future : all.futures()) {
    if (!future.has_failure()) continue;
    failed = true;
    fmt::print(stderr, "error: future {} under {}: {}\n", future.future(),
               names_of(options)[future.choice()], future.failure().message());
  }
  json ? print_json(options, all) : print_tables(options, all);
  return failed ? static_cast<int>(ErrorKind::goal_missed) : 0;
}

}  // namespace orrery::cli
