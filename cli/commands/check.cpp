// orrery check: prints every problem of a scenario, a topology or a replay, with its place.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/replay_options.hpp"
#include "cli/shared/run_options.hpp"
#include "cli/shared/spec_output.hpp"
#include "core/error.hpp"
#include "core/files/file_kind.hpp"
#include "core/process.hpp"
#include "policies/placement/placer.hpp"
#include "policies/run/registry.hpp"
#include "sim/replay/job_replay.hpp"
#include "topologies/builder.hpp"
#include "traces/scenario/replay_conditions.hpp"

namespace orrery::cli {
namespace {

/// Returns the text of a file; nothing if the file cannot be read, which loading reports better.
std::optional<std::string> text_of(const std::string& file) {
  if (!is_file(file)) return {};
  std::ifstream in(file, std::ios::binary);
  if (!in) return {};
  return std::string{std::istreambuf_iterator<char>(in), {}};
}

/// Returns a text with the number of switches of a cluster whose NICs have ports in several planes,
/// and the number in three tiers of equally large switches with ports as fast as a NIC. Empty for a
/// cluster of one plane.
std::string switches_of(const Cluster& cluster) {
  const Cluster::Switches switches = cluster.switches();
  const std::uint32_t planes = cluster.shape().planes;
  if (planes == 1) return "";
  const std::uint32_t ports = 2 * switches.spines / planes / planes;
  return fmt::format(
      "; {} leaf and {} spine switches a plane, {} in all, {} paths between two "
      "leaves; in three tiers {} switches",
      switches.leaves / planes, switches.spines / planes, switches.all(), switches.paths,
      three_tier_switches(std::uint64_t{cluster.nodes()} * cluster.rails(), ports));
}

std::vector<Error> check_topology(const std::string& text, const std::string& file) {
  Topology topology;
  std::vector<Error> problems = check_yaml(text, file, topology);
  if (!problems.empty()) return problems;
  try {
    const SourceMap places = load_yaml(text, file, topology);
    resolve(topology, places);
    const Cluster cluster = build_cluster(topology, places);
    fmt::print("{}: ok: topology of {} nodes, {} GPUs{}\n", file, cluster.nodes(), cluster.gpus(),
               switches_of(cluster));
  } catch (const Error& problem) {
    problems.push_back(problem);
  }
  return problems;
}

/// Returns the problems of a replay that can be found without running it.
std::vector<Error> check_replay(const std::string& text, const RunOptions& options) {
  JobReplay replay;
  std::vector<Error> problems = check_yaml(text, options.file, replay);
  if (!problems.empty()) return problems;
  try {
    ReplayOptions asked;
    asked.file = options.file;
    replay = asked_for(asked, options.overrides);
    make_stack(replay);
    if (!replay.placement().empty()) make_placer(replay.placement());
    sim::check_power(replay);
    const JobLog log = load_log(replay, asked);
    fmt::print("{}: ok: replay of {} jobs in '{}'\n", options.file, log.jobs.size(),
               replay.trace());
  } catch (const Error& problem) {
    problems.push_back(problem);
  }
  return problems;
}

/// Returns all problems of a file that is not a valid scenario, as the kind of file that fits best:
/// a replay, a scenario, or a topology if that has fewer problems. Empty if the file is a valid
/// replay or topology. Returns only `first` for a scenario with overrides, which the text lacks.
std::vector<Error> all_problems(const RunOptions& options, const Error& first) {
  const std::optional<std::string> text = text_of(options.file);
  if (text && describes_replay(options.file)) return check_replay(*text, options);
  if (!text || !options.overrides.empty()) return {first};
  std::vector<Error> problems = check_scenario(*text, options.file);
  if (problems.empty()) return {first};  // found only by a run
  Topology topology;
  if (check_yaml(*text, options.file, topology).size() >= problems.size()) return problems;
  return check_topology(*text, options.file);
}

/// Begins a run in the simulator and ends it as soon as it makes progress, to find problems that
/// only a run finds: memory, unsuitable policies, missing files.
void begin_run(const RunOptions& options, const LoadedScenario& loaded) {
  RunRequest request;
  *request.mutable_scenario() = loaded.scenario;
  request.set_folder(std::filesystem::path(options.file).parent_path().string());
  request.set_mode("drive");
  bool begun = false;
  try {
    run_in_worker(
        sibling_program("orrery-sim"), request, nullptr,
        [&begun](const Progress&) { begun = true; }, [&begun] { return begun; });
  } catch (const Interrupted&) {
  } catch (const WorkerDied&) {
    throw;
  } catch (const Error& error) {
    throw with_place(error, loaded.places);
  }
}

/// Grades a file under the training spec.
int grade(const RunOptions& options) {
  const sim::SpecReport report = grade_file(options);
  print_grades(options.file, report, options.json);
  return report.count_of(sim::SpecGrade::fail) == 0 ? 0 : static_cast<int>(ErrorKind::goal_missed);
}

int check(const RunOptions& options) {
  try {
    const LoadedScenario loaded = options.load();
    begin_run(options, loaded);
    fmt::print("{}: ok: scenario '{}', hash {}\n", options.file, loaded.scenario.name(),
               scenario_hash(loaded.scenario));
    return 0;
  } catch (const Error& first) {
    const std::vector<Error> problems = all_problems(options, first);
    if (problems.empty()) return 0;
    for (const Error& problem : problems) fmt::print(stderr, "{}\n", problem.what());
    fmt::print(stderr, "{}: {} problem{}\n", options.file, problems.size(),
               problems.size() == 1 ? "" : "s");
    return static_cast<int>(first.kind());
  }
}

}  // namespace

void add_check(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<RunOptions>();
  const auto by_spec = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("check",
                         "print every problem of a scenario (also those found only by a run), a "
                         "topology, or a replay of a job trace");
  options->add_file(*command);
  options->add_overrides(*command);
  CLI::Option* spec =
      command->add_flag("--spec", *by_spec,
                        "grade a scenario, a topology or the log of a run against the training "
                        "spec (docs/spec.md); exit code 1 if a rule fails");
  command->add_flag("--json", options->json, "print the grades as one JSON object")->needs(spec);
  add_examples(*command,
               {"orrery check train.yaml", "orrery check train.yaml --set cluster.nodes=128",
                "orrery check --spec train.yaml --json"});
  command->callback([options, by_spec, &chosen] {
    chosen = [options, by_spec] { return *by_spec ? grade(*options) : check(*options); };
  });
}

}  // namespace orrery::cli
