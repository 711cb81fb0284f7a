// orrery fit: rates, recovery times and unreliable nodes of an operator's own log, learnt on its
// first half and judged on its second, as a section of a scenario.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/output_file.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "core/schema/yaml_writer.hpp"
#include "core/units.hpp"
#include "traces/failures/failure_fit.hpp"
#include "traces/failures/failure_section.hpp"

namespace orrery::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kDay_s = 86400;
constexpr std::uint64_t kLeast = 5;  ///< interruptions of the first half

struct FitOptions {
  std::string file = {}, out = {}, time = {}, job = {};
  std::uint32_t nodes = 0, gpus_per_node = 8;
  std::uint64_t seed = 1;
  bool json = false;
};

/// Fits of the halves of a log, and the forecast of the second half by the first.
struct Judged {
  FailureFit learnt = {}, happened = {};
  FailureForecast forecast = {};
};

Judged judge(const IncidentLog& log, const FitOptions& options) {
  const Rng rng(options.seed);
  const auto fit = [&](double begin_s, double end_s) {
    return learn_failures(log, begin_s, end_s, log.nodes, options.gpus_per_node);
  };
  const double half = 0.5 * log.length_s;
  Judged judged{.learnt = fit(0, half), .happened = fit(half, log.length_s)};
  if (judged.learnt.interruptions < kLeast) {
    throw Error(ErrorKind::bad_input,
                fmt::format("{}: expected at least {} interruptions in the first half of the log, "
                            "found {}: give a longer log",
                            options.file, kLeast, judged.learnt.interruptions));
  }
  judged.forecast =
      forecast_failures(judged.learnt, log.length_s - half, rng.split_stream("forecast"));
  return judged;
}

IncidentLog load_log(const FitOptions& options) {
  IncidentOptions choices{.job = options.job};
  if (!options.time.empty()) {
    choices.length_s = parse_quantity(options.time, Dimension::time);
    if (!choices.length_s || !(*choices.length_s > 0) || *choices.length_s > 9e9) {
      throw Error(ErrorKind::usage, fmt::format("--time: expected a time such as '365 d', found "
                                                "'{}'",
                                                options.time));
    }
  }
  IncidentLog log = load_incidents(options.file, choices);
  if (options.nodes > 0) log.nodes = options.nodes;
  if (log.nodes == 0) {
    throw Error(ErrorKind::usage, fmt::format("--nodes: expected the number of the job's nodes, "
                                              "which a log of the format {} does not have",
                                              log.format));
  }
  return log;
}

// ---- failures of the second half on the nodes that the first half calls unreliable
// ---------------

struct LemonScore {
  std::uint64_t failures = 0, of = 0;  ///< failures of the second half: on these nodes, and on all
  double expected = 0;
};

LemonScore score_of(const IncidentLog& log, const LemonFit& lemons, std::uint32_t gpus_per_node) {
  LemonScore score;
  for (const Incident& each : log.incidents) {
    const std::optional<std::uint32_t> node = node_of(each, gpus_per_node);
    if (each.at_s < 0.5 * log.length_s || !node) continue;
    ++score.of;
    if (std::binary_search(lemons.nodes.begin(), lemons.nodes.end(), *node)) ++score.failures;
  }
  for (const double share : lemons.expected)
    score.expected += share * static_cast<double>(score.of);
  return score;
}

std::string node_name(const IncidentLog& log, std::uint32_t node) {
  return node < log.node_names.size() ? log.node_names[node] : fmt::format("node {}", node);
}

// ---- results ------------------------------------------------------------------------------------

Json json_of(const FitInterval& interval) {
  return {{"p2_5", interval.p2_5},
          {"p10", interval.p10},
          {"p50", interval.p50},
          {"p90", interval.p90},
          {"p97_5", interval.p97_5}};
}

bool is_within_80(const FitInterval& interval, double value) {
  return value >= interval.p10 && value <= interval.p90;
}
bool is_within_95(const FitInterval& interval, double value) {
  return value >= interval.p2_5 && value <= interval.p97_5;
}

std::uint64_t count_of(const FailureFit& fit, const CauseFit& cause) {
  for (const CauseFit& each : fit.causes) {
    if (is_same_cause(each.like, cause.like)) return each.count;
  }
  return 0;
}

FitInterval quantiles_of(std::vector<double> times) {
  return times.empty() ? FitInterval{} : interval_of(times);
}

Json json_of(const IncidentLog& log, const Judged& judged, const FitOptions& options) {
  Json causes = Json::array();
  for (const CauseFit& each : judged.learnt.causes) {
    causes.push_back({{"cause", each.like.cause},
                      {"part", name_of(each.like.part)},
                      {"count", each.count},
                      {"per_day", json_of(each.per_day)},
                      {"count_second_half", count_of(judged.happened, each)}});
    if (!each.down_s.empty()) causes.back()["down_s"] = json_of(quantiles_of(each.down_s));
  }
  const LemonFit& lemons = judged.learnt.lemons;
  const LemonScore score = score_of(log, lemons, options.gpus_per_node);
  Json names = Json::array();
  for (const std::uint32_t node : lemons.nodes) names.push_back(node_name(log, node));
  const double goodput = judged.happened.goodput();
  return {{"format", log.format},
          {"length_s", log.length_s},
          {"nodes", log.nodes},
          {"incidents", log.incidents.size()},
          {"goodput_first_half", judged.learnt.goodput()},
          {"goodput", json_of(judged.forecast.goodput)},
          {"goodput_second_half", goodput},
          {"within_80", is_within_80(judged.forecast.goodput, goodput)},
          {"within_95", is_within_95(judged.forecast.goodput, goodput)},
          {"interruptions", json_of(judged.forecast.interruptions)},
          {"interruptions_second_half", judged.happened.interruptions},
          {"causes", causes},
          {"lemons",
           {{"share", lemons.share},
            {"times", lemons.times},
            {"nodes", names},
            {"failures_second_half", score.failures},
            {"of", score.of},
            {"expected", score.expected}}},
          {"notes", log.notes}};
}

std::string verdict(const FitInterval& interval, double value) {
  if (is_within_80(interval, value)) return "within 80%";
  return is_within_95(interval, value) ? "within 95%" : "outside";
}

void print_causes(const Judged& judged) {
  fmt::print("\n{:<24} {:<6} {:>5} {:>8} {:>17} {:>17} {:>11} {:>11} {:>7}\n", "cause", "part",
             "count", "a day", "80%", "95%", "down, s", "p90, s", "2nd");
  for (const CauseFit& each : judged.learnt.causes) {
    const FitInterval& rate = each.per_day;
    const FitInterval down = quantiles_of(each.down_s);
    fmt::print("{:<24} {:<6} {:>5} {:>8.4f} {:>17} {:>17} {:>11.0f} {:>11.0f} {:>7}\n",
               each.like.cause, name_of(each.like.part), each.count, rate.p50,
               fmt::format("{:.4f} to {:.4f}", rate.p10, rate.p90),
               fmt::format("{:.4f} to {:.4f}", rate.p2_5, rate.p97_5), down.p50, down.p90,
               count_of(judged.happened, each));
  }
}

void print_lemons(const IncidentLog& log, const Judged& judged, const FitOptions& options) {
  const LemonFit& lemons = judged.learnt.lemons;
  if (lemons.share == 0) return fmt::print("\nNo node fails more often than chance explains.\n");
  fmt::print("\nUnreliable nodes: {:.1f}% of the nodes fail {:.1f} times as often.",
             100 * lemons.share, lemons.times);
  for (std::size_t i = 0; i < lemons.nodes.size(); ++i) {
    fmt::print("{}{}", i == 0 ? " By name: " : ", ", node_name(log, lemons.nodes[i]));
  }
  const LemonScore score = score_of(log, lemons, options.gpus_per_node);
  fmt::print("\nIn the second half these had {} of {} failures of nodes; expected were {:.1f}.\n",
             score.failures, score.of, score.expected);
}

void print_text(const IncidentLog& log, const Judged& judged, const FitOptions& options) {
  fmt::print("{}: {} incidents in {:.1f} days on {} nodes\n", log.format, log.incidents.size(),
             log.length_s / kDay_s, log.nodes);
  for (const std::string& note : log.notes) fmt::print("note: {}\n", note);
  print_causes(judged);
  print_lemons(log, judged, options);
  const FitInterval& goodput = judged.forecast.goodput;
  const FitInterval& count = judged.forecast.interruptions;
  const double real = judged.happened.goodput();
  fmt::print("\n{:<28} {:>9} {:>20} {:>20} {:>9}\n", "second half, by the first", "median", "80%",
             "95%", "happened");
  fmt::print("{:<28} {:>8.2f}% {:>20} {:>20} {:>8.2f}%  {}\n", "goodput", 100 * goodput.p50,
             fmt::format("{:.2f} to {:.2f}", 100 * goodput.p10, 100 * goodput.p90),
             fmt::format("{:.2f} to {:.2f}", 100 * goodput.p2_5, 100 * goodput.p97_5), 100 * real,
             verdict(goodput, real));
  const auto happened = static_cast<double>(judged.happened.interruptions);
  fmt::print("{:<28} {:>9.0f} {:>20} {:>20} {:>9.0f}  {}\n", "interruptions", count.p50,
             fmt::format("{:.0f} to {:.0f}", count.p10, count.p90),
             fmt::format("{:.0f} to {:.0f}", count.p2_5, count.p97_5), happened,
             verdict(count, happened));
}

std::string section_of(const IncidentLog& log, const FitOptions& options) {
  const FailureFit whole = learn_failures(log, 0, log.length_s, log.nodes, options.gpus_per_node);
  Scenario scenario;
  *scenario.mutable_failures() = failure_section(whole, log.nodes, options.gpus_per_node);
  return fmt::format(
      "# Written by orrery fit failures: {} incidents in {:.1f} days on {} nodes.\n"
      "# Learnt from the whole log; its halves judge the method. Copy the section "
      "into a scenario.\n{}",
      log.incidents.size(), log.length_s / kDay_s, log.nodes, to_yaml(scenario));
}

int fit_failures(const FitOptions& options) {
  std::optional<OutputFile> file;
  if (!options.out.empty()) file.emplace(options.out);
  const IncidentLog log = load_log(options);
  const Judged judged = judge(log, options);
  if (options.json)
    fmt::print("{}\n", json_of(log, judged, options).dump(2));
  else
    print_text(log, judged, options);
  if (file) file->write_and_rename(section_of(log, options));
  return 0;
}

}  // namespace

void add_fit(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("fit", "learn a scenario's inputs from an operator's log");
  command->require_subcommand(1);
  const auto options = std::make_shared<FitOptions>();
  CLI::App* failures = command->add_subcommand(
      "failures", "rates, recovery times and unreliable nodes, judged on the log's second half");
  failures
      ->add_option("LOG", options->file,
                   "CSV of incidents, output of sacct, or Kubernetes events as JSON; .gz too")
      ->required();
  failures->add_option("-o,--output", options->out, "section failures: of a scenario, to write")
      ->type_name("OUT.yaml");
  whole_number(
      *failures->add_option("--nodes", options->nodes, "nodes of the job (default: from sacct)"), 1,
      131072)
      .type_name("N");
  whole_number(*failures->add_option("--gpus-per-node", options->gpus_per_node, "GPUs of a node"),
               1, 1024)
      .type_name("G")
      ->capture_default_str();
  failures->add_option("--time", options->time, "length of the log (default: until its last entry)")
      ->type_name("TIME");
  failures->add_option("--job", options->job, "name of the job (default: the largest)")
      ->type_name("NAME");
  failures->add_option("--seed", options->seed, "seed of the intervals")
      ->type_name("N")
      ->capture_default_str();
  failures->add_flag("--json", options->json, "print the results as one JSON object");
  add_examples(*failures, {"sacct -a -D -X -P -S 2024-01-01 -o "
                           "JobID,JobName,User,State,Start,End,NNodes,FailedNode > sacct.txt",
                           "orrery fit failures sacct.txt -o failures.yaml",
                           "orrery fit failures incidents.csv --nodes 128 --time '365 d' --json"});
  failures->callback([options, &chosen] { chosen = [options] { return fit_failures(*options); }; });
}

}  // namespace orrery::cli
