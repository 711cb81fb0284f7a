// orrery compare: runs scenarios in both worlds and compares predicted with measured times, and the
// predicted with the measured order of several scenarios.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/comparison.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/machine.hpp"
#include "cli/shared/program_comparison.hpp"
#include "cli/shared/run_options.hpp"
#include "cli/shared/shipped_examples.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "topologies/machine.hpp"

namespace orrery::cli {
namespace {

struct CompareOptions : RunOptions {
  std::vector<std::string> files;
  std::uint32_t ranks = 0;  // world size; 0: as each scenario says
  std::string machine;      // profile; empty: this machine is measured first
  double tolerance = 0.1;
};

/// Compared scenario, loaded before any measurement so that bad input is reported at once.
struct Candidate {
  LoadedScenario loaded;
  std::uint32_t ranks = 0;
};

Candidate load(const CompareOptions& options, const std::string& file) {
  RunOptions one = options;
  one.file = file;
  Candidate candidate{.loaded = one.load()};
  if (options.ranks != 0) set_ranks(candidate.loaded, options.ranks);
  const Scenario& scenario = candidate.loaded.scenario;
  if (!scenario.has_job() || scenario.job().model().builtin().empty()) {
    throw problem_at(candidate.loaded.places, "job.model",
                     "expected a built-in model, or a program that `orrery calibrate -- PROGRAM` "
                     "recorded: only these run in both worlds");
  }
  candidate.ranks = scenario.job().layout().data();
  return candidate;
}

/// Returns the profile of --machine, or measures this machine for the scenarios' numbers of ranks.
MachineProfile machine_of(const CompareOptions& options, const std::vector<Candidate>& candidates) {
  if (!options.machine.empty()) return load_machine(options.machine);
  std::vector<std::uint32_t> ranks;
  for (const Candidate& each : candidates) ranks.push_back(std::max(2u, each.ranks));
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  fmt::print(stderr,
             "measuring this machine (--machine with a profile of `orrery calibrate` saves "
             "this time)\n");
  const MeasuredMachine measured = measure_machine(ranks, true);
  if (measured.product_error > kMostProductError) {
    throw Error(ErrorKind::goal_missed,
                fmt::format("cannot predict: {}. Other programs keep this machine busy; try again "
                            "when it is quiet, or give a profile: --machine",
                            describe_error(measured)));
  }
  return measured.profile;
}

Comparison run_both(const Candidate& candidate, const MachineProfile& machine) {
  RunRequest request;
  *request.mutable_scenario() = candidate.loaded.scenario;
  request.set_mode("drive");
  use_machine(request, machine);
  Comparison out{.name = candidate.loaded.scenario.name()};
  out.predicted = run(Worker::sim, request, candidate.loaded.places);
  request.clear_machine();
  request.set_fabric(request.scenario().live().fabric());
  out.measured = run(Worker::live, request, candidate.loaded.places);
  if (out.predicted.has_step_time_s() && out.measured.has_step_time_s()) return out;
  throw Error(ErrorKind::goal_missed, out.name +
                                          ": no step was committed, so no times can be "
                                          "compared");
}

/// Returns the scenarios if all are recorded programs; nothing if none is.
std::vector<ProgramCandidate> programs_of(const CompareOptions& options) {
  std::vector<ProgramCandidate> programs;
  for (const std::string& file : options.files) {
    RunOptions one = options;
    one.file = file;
    if (has_command(one.load().scenario)) programs.push_back(load_program(one, options.ranks));
  }
  if (programs.empty()) return programs;
  if (programs.size() < options.files.size()) {
    throw Error(ErrorKind::usage,
                "expected programs only or built-in models only, found both; "
                "compare them one after the other");
  }
  if (!options.machine.empty()) {
    throw Error(ErrorKind::usage,
                "--machine: expected none for a program, whose scenario has the "
                "machine, found one; leave the option out");
  }
  return programs;
}

/// Loads all scenarios, and returns the functions that run them in both worlds.
std::vector<std::function<Comparison()>> comparisons(const CompareOptions& options) {
  std::vector<std::function<Comparison()>> made;
  for (ProgramCandidate& each : programs_of(options)) {
    made.emplace_back([each = std::move(each)] { return compare_program(each); });
  }
  if (!made.empty()) return made;
  std::vector<Candidate> candidates;
  for (const std::string& file : options.files) candidates.push_back(load(options, file));
  const MachineProfile machine = machine_of(options, candidates);
  for (Candidate& each : candidates) {
    made.emplace_back([each = std::move(each), machine] { return run_both(each, machine); });
  }
  return made;
}

int compare(const CompareOptions& options) {
  std::vector<Comparison> runs;
  for (const auto& each : comparisons(options)) {
    runs.push_back(each());
    if (!options.json) fmt::print("{}", comparison_text(runs.back(), options.tolerance));
    std::fflush(stdout);
  }
  if (options.json) fmt::print("{}\n", comparison_json(runs, options.tolerance));
  bool good = std::all_of(runs.begin(), runs.end(), [&](const Comparison& run) {
    const bool is_plain_good =
        !run.without_policies || run.without_policies->is_within(options.tolerance);
    return run.is_within(options.tolerance) && is_plain_good;
  });
  if (runs.size() > 1) {
    if (!options.json) fmt::print("{}", order_text(runs));
    good = good && predicted_order(runs) == measured_order(runs) && too_close(runs).empty();
  }
  return good ? 0 : static_cast<int>(ErrorKind::goal_missed);
}

}  // namespace

void add_compare(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<CompareOptions>();
  CLI::App* command = app.add_subcommand(
      "compare",
      "run scenarios in both worlds and compare predicted with measured times, and "
      "the order of several scenarios");
  or_example(*command->add_option("FILE", options->files,
                                  "scenarios (YAML), or names of shipped examples"))
      .required();
  whole_number(*command->add_option("--ranks", options->ranks,
                                    "world size; only for a scenario with elastic: true"),
               1, 131072)
      .type_name("N");
  command
      ->add_option("--machine", options->machine,
                   "profile of `orrery calibrate`; without one this machine is measured first")
      ->type_name("PROFILE.yaml");
  number(*command->add_option("--tolerance", options->tolerance,
                              "exit 1 if the error of the step time exceeds this share"),
         0, 10)
      .type_name("SHARE")
      ->capture_default_str();
  options->add_json(*command);
  options->add_seed(*command);
  options->add_overrides(*command);
  add_examples(*command, {"orrery calibrate -o train.yaml -n 2 -- python train.py",
                          "orrery compare train.yaml --ranks 4", "orrery calibrate -o here.yaml",
                          "orrery compare examples/compare/*.yaml --machine here.yaml"});
  command->callback([options, &chosen] { chosen = [options] { return compare(*options); }; });
}

}  // namespace orrery::cli
