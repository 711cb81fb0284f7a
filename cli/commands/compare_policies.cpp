// orrery compare-policies: runs one scenario under several policies, in one world or in both, and
// prints the results beside the ideal step time that follows from the declared speeds.
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/paired.hpp"
#include "cli/shared/policy_option.hpp"
#include "cli/shared/run_options.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "core/process.hpp"
#include "core/schema/names.hpp"

namespace orrery::cli {
namespace {

/// Worlds in which the policies run.
enum class ComparedWorld : std::uint8_t { sim, live, both };
constexpr std::array<std::string_view, 3> names_of(ComparedWorld) {
  return {"sim", "live", "both"};
}

struct ComparePoliciesOptions : RunOptions {
  std::vector<std::string> policies = {"static", "predictive-rebalance"};
  std::string world = "sim";
  double within = 0;        // limit of step time / ideal; 0: none
  std::uint32_t seeds = 0;  // number of seeds, from 1 on; 0: the scenario's seed only
};

struct Row {
  ComparedWorld world{};
  std::string policy;
  Report report;

  /// Returns step time / ideal step time; nothing if either is unknown.
  std::optional<double> ratio() const {
    if (!report.has_step_time_s() || !report.has_ideal_step_time_s()) return std::nullopt;
    if (report.ideal_step_time_s() <= 0) return std::nullopt;
    return report.step_time_s() / report.ideal_step_time_s();
  }
};

ComparedWorld world_of(const ComparePoliciesOptions& options) {
  return named<ComparedWorld>(options.world);
}

std::vector<ComparedWorld> worlds_of(const ComparePoliciesOptions& options) {
  const ComparedWorld world = world_of(options);
  if (world == ComparedWorld::both) return {ComparedWorld::sim, ComparedWorld::live};
  return {world};
}

/// Runs the scenario under one policy. `simulator`: fork server of simulations; may be null for
/// live runs.
Row run_one(const ComparePoliciesOptions& options, const LoadedScenario& loaded,
            ComparedWorld world, const std::string& policy, ForkServer* simulator) {
  RunRequest request;
  *request.mutable_scenario() = loaded.scenario;
  const auto own = choose_policies({policy}, request);
  const bool measured = world == ComparedWorld::live;
  if (measured) {
    request.set_mode("drive");
    request.set_fabric(request.scenario().live().fabric());
  }
  if (!options.record.empty()) {
    const std::string name = std::filesystem::path(policy).filename().string();
    request.set_record(fmt::format("{}.{}.{}", options.record, name_of(world), name));
  }
  ForkServer* const server = measured ? nullptr : simulator;
  return {world, policy,
          run(measured ? Worker::live : Worker::sim, request, loaded.places, nullptr, server,
              own.get())};
}

std::string seconds(bool known, double value) {
  return known ? fmt::format("{:.4f} s", value) : "unknown";
}

void print_rows(const std::vector<Row>& rows) {
  fmt::print("{:<6}{:<24}{:>14}{:>14}{:>9}{:>12}{:>11}\n", "world", "policy", "median step",
             "ideal step", "ratio", "tokens/s", "decisions");
  for (const Row& row : rows) {
    const Report& report = row.report;
    const std::optional<double> ratio = row.ratio();
    fmt::print("{:<6}{:<24}{:>14}{:>14}{:>9}{:>12.0f}{:>11}\n", name_of(row.world), row.policy,
               seconds(report.has_step_time_s(), report.step_time_s()),
               seconds(report.has_ideal_step_time_s(), report.ideal_step_time_s()),
               ratio ? fmt::format("{:.3f} x", *ratio) : "unknown", report.tokens_per_s(),
               report.decisions());
  }
}

std::string as_json(const std::vector<Row>& rows) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    const Report& report = row.report;
    nlohmann::ordered_json line;
    const auto put = [&line](const char* key, bool known, auto value) {
      line[key] = nullptr;
      if (known) line[key] = value;
    };
    line["world"] = name_of(row.world);
    line["policy"] = row.policy;
    put("step_time_s", report.has_step_time_s(), report.step_time_s());
    put("ideal_step_time_s", report.has_ideal_step_time_s(), report.ideal_step_time_s());
    put("ratio", row.ratio().has_value(), row.ratio().value_or(0));
    put("tokens_per_s", report.has_tokens_per_s(), report.tokens_per_s());
    put("decisions", report.has_decisions(), report.decisions());
    put("final_loss", report.has_final_loss(), report.final_loss());
    out.push_back(std::move(line));
  }
  return out.dump(2);
}

/// Returns true, and prints the reason, if the last policy misses the limit of --within in any
/// world. An unknown ratio misses the limit.
bool misses(const ComparePoliciesOptions& options, const std::vector<Row>& rows) {
  bool missed = false;
  for (const Row& row : rows) {
    if (options.within <= 0 || row.policy != options.policies.back()) continue;
    const std::optional<double> ratio = row.ratio();
    if (ratio && *ratio <= options.within) continue;
    missed = true;
    fmt::print(stderr, "goal missed: {} under {}: {} of the ideal step time, at most {} allowed\n",
               row.policy, name_of(row.world), ratio ? fmt::format("{:.3f} x", *ratio) : "unknown",
               options.within);
  }
  return missed;
}

/// Median step times of one policy, one for each seed.
struct SeedRow {
  std::string policy;
  std::vector<double> step_times_s;

  double mean() const {
    double sum = 0;
    for (const double value : step_times_s) sum += value;
    return sum / static_cast<double>(step_times_s.size());
  }
};

std::vector<SeedRow> run_seeds(const ComparePoliciesOptions& options, LoadedScenario loaded,
                               ForkServer& simulator) {
  std::vector<SeedRow> rows;
  for (const std::string& policy : options.policies) {
    SeedRow& row = rows.emplace_back(SeedRow{policy, {}});
    for (std::uint32_t seed = 1; seed <= options.seeds; ++seed) {
      loaded.scenario.mutable_run()->set_seed(seed);
      const Report report = run_one(options, loaded, ComparedWorld::sim, policy, &simulator).report;
      if (!report.has_step_time_s()) {
        throw Error(ErrorKind::bad_input,
                    fmt::format("--seeds: expected a step time under {} with seed {}, found none: "
                                "no step was completed",
                                policy, seed));
      }
      row.step_times_s.push_back(report.step_time_s());
    }
  }
  return rows;
}

void print_seeds(const std::vector<SeedRow>& rows) {
  fmt::print("{:<24}{:>7}{:>16}{:>14}{:>28}\n", "policy", "seeds", "median step", "difference",
             "95% interval");
  for (const SeedRow& row : rows) {
    fmt::print("{:<24}{:>7}{:>16}", row.policy, row.step_times_s.size(), seconds(true, row.mean()));
    if (&row != &rows.front()) {
      const PairedDifference by = paired_difference(row.step_times_s, rows.front().step_times_s);
      fmt::print("{:>+12.4f} s{:>28}", by.mean,
                 fmt::format("{:+.4f} to {:+.4f} s", by.low, by.high));
    }
    fmt::print("\n");
  }
}

std::string as_json(const std::vector<SeedRow>& rows) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const SeedRow& row : rows) {
    const PairedDifference by = paired_difference(row.step_times_s, rows.front().step_times_s);
    out.push_back({{"policy", row.policy},
                   {"seeds", row.step_times_s.size()},
                   {"step_time_s", row.mean()},
                   {"difference_s", by.mean},
                   {"low_s", by.low},
                   {"high_s", by.high}});
  }
  return out.dump(2);
}

int compare_over_seeds(const ComparePoliciesOptions& options, const LoadedScenario& loaded) {
  const bool has_seed = !options.own.empty();
  if (world_of(options) != ComparedWorld::sim || options.within > 0 || !options.record.empty() ||
      has_seed) {
    throw Error(ErrorKind::usage,
                "--seeds: expected neither --world live or both, --within, "
                "--record nor --seed, which are about one run: leave them out");
  }
  ForkServer simulator(sibling_program("orrery-sim"));
  const std::vector<SeedRow> rows = run_seeds(options, loaded, simulator);
  if (options.json) {
    fmt::print("{}\n", as_json(rows));
  } else {
    print_seeds(rows);
  }
  return 0;
}

int compare_policies(const ComparePoliciesOptions& options) {
  const LoadedScenario loaded = options.load();
  if (options.seeds > 0) return compare_over_seeds(options, loaded);
  std::vector<Row> rows;
  std::optional<ForkServer> simulator;
  if (world_of(options) != ComparedWorld::live) simulator.emplace(sibling_program("orrery-sim"));
  for (const ComparedWorld world : worlds_of(options)) {
    for (const std::string& policy : options.policies) {
      rows.push_back(run_one(options, loaded, world, policy, simulator ? &*simulator : nullptr));
    }
  }
  if (options.json) {
    fmt::print("{}\n", as_json(rows));
  } else {
    print_rows(rows);
  }
  return misses(options, rows) ? static_cast<int>(ErrorKind::goal_missed) : 0;
}

}  // namespace

void add_compare_policies(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<ComparePoliciesOptions>();
  CLI::App* command =
      app.add_subcommand("compare-policies", "run a scenario under several policies, side by side");
  command->alias("versus");  // its name until 0.1
  options->add_file(*command);
  command->add_option("--policies", options->policies, "policies, in table order")
      ->type_name("A,B,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->default_str("static,predictive-rebalance");
  one_of(*command->add_option("--world", options->world, "where to run"),
         all_names<ComparedWorld>())
      .capture_default_str();
  number(*command->add_option(
             "--within", options->within,
             "exit 1 if the last policy's median step takes more than X times the ideal"),
         1e-6, 1e6)
      .type_name("X");
  whole_number(*command->add_option("--seeds", options->seeds,
                                    "simulate each policy with seeds 1 to N, and print the mean "
                                    "of the paired differences from the first policy, and its "
                                    "95% interval"),
               2, 1'000'000)
      .type_name("N");
  options->add_json(*command);
  options->add_seed(*command);
  options->add_record(*command);
  options->add_overrides(*command);
  add_examples(*command,
               {"orrery compare-policies examples/straggler-4-ranks.yaml",
                "orrery compare-policies examples/straggler-4-ranks.yaml --world both "
                "--within 1.15",
                "orrery compare-policies train.yaml --policies static,mine.py:Mine --seeds 20"});
  command->callback(
      [options, &chosen] { chosen = [options] { return compare_policies(*options); }; });
}

}  // namespace orrery::cli
