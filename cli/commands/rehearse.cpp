// orrery rehearse: runs an unchanged PyTorch program as one of N ranks of a cluster that does not
// exist, and prices its operators and collectives.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/policy_option.hpp"
#include "cli/shared/price_server.hpp"
#include "cli/shared/recorded_run.hpp"
#include "cli/shared/rehearsed_roles.hpp"
#include "cli/shared/shipped_examples.hpp"
#include "cli/shared/usage.hpp"
#include "cli/shared/user_program.hpp"
#include "cli/shared/vary.hpp"
#include "core/error.hpp"
#include "core/files/file_kind.hpp"
#include "core/files/temporary_folder.hpp"
#include "core/process.hpp"
#include "core/schema/yaml_writer.hpp"
#include "topologies/builder.hpp"
#include "traces/report/report.hpp"
#include "traces/workload/own_stack.hpp"
#include "traces/workload/stacks.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;

struct RehearseOptions {
  std::uint32_t ranks = 0;
  std::string cluster, gpu, trace, prices, stack, scenario, vary;
  std::vector<std::string> allowed, policies, program;
  std::vector<std::uint32_t> roles;
  bool json = false;

  /// Returns the cluster's name for messages.
  const std::string& cluster_name() const { return cluster.empty() ? scenario : cluster; }
};

/// Throws a usage Error for options that exclude each other.
void check_options(const RehearseOptions& options) {
  const auto fail = [](const std::string& message) { throw Error(ErrorKind::usage, message); };
  if (options.cluster.empty() && options.scenario.empty()) {
    fail("expected --cluster, or --scenario with a cluster, found neither");
  }
  if (!options.policies.empty() && options.scenario.empty()) {
    fail("--policy: expected --scenario, under which the recorded step is simulated, found none");
  }
  if (!options.vary.empty() && !(options.scenario.empty() && options.trace.empty())) {
    fail(
        "--vary: expected neither --scenario nor --trace, which are about one step: rehearse the "
        "best combination with them");
  }
}

/// Returns the topology of --cluster, without defaults: a file, or a preset with as many nodes as
/// the ranks need.
Topology topology_of(const RehearseOptions& options, SourceMap& places) {
  Topology topology;
  if (is_file(options.cluster)) {
    places = load_yaml_file(options.cluster, topology);
  } else {
    topology.set_preset(options.cluster);
    topology.set_nodes(1);
    Topology one = topology;
    resolve(one, {});
    const std::uint32_t each = one.node().gpus_per_node();
    topology.set_nodes((options.ranks + each - 1) / each);
  }
  return topology;
}

/// Returns the simulation of the recorded step. Its scenario has the cluster of --cluster, if
/// given.
RecordedRun recorded_run(const RehearseOptions& options) {
  SourceMap places;
  const bool own = options.cluster.empty();
  return {.file = options.scenario,
          .cluster_text = own ? "" : to_yaml_json(topology_of(options, places)).dump(),
          .gpu = options.gpu,
          .policies = options.policies};
}

/// Returns the cluster of the rehearsal: that of --cluster, else that of the scenario.
Cluster cluster_of(const RehearseOptions& options) {
  SourceMap places;
  Topology topology;
  if (!options.scenario.empty()) topology = recorded_run(options).cluster(places);
  const std::string path = options.cluster.empty() ? "cluster" : "";
  if (!options.cluster.empty()) topology = topology_of(options, places);
  if (!options.gpu.empty()) topology.mutable_node()->set_gpu(options.gpu);
  resolve(topology, places, path);
  Cluster cluster = build_cluster(topology, places, path);
  if (options.ranks > cluster.gpus()) {
    throw Error(ErrorKind::bad_input,
                fmt::format("{}: expected a GPU for each of {} ranks, found {} GPUs: add nodes to "
                            "the cluster or choose fewer --ranks",
                            options.cluster_name(), options.ranks, cluster.gpus()));
  }
  return cluster;
}

/// Returns the software stack of --stack: of a file, or a shipped one; nothing without the option.
/// Throws as load_own_stack() and software_stack() do.
std::optional<SoftwareStack> software_of(const RehearseOptions& options) {
  if (options.stack.empty()) return std::nullopt;
  return names_own_stack(options.stack) ? load_own_stack(options.stack)
                                        : software_stack(options.stack);
}

std::string text_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    throw Error(ErrorKind::bad_input,
                fmt::format("{}: expected a file with prices, cannot read it", file));
  }
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Returns the description of the rehearsal that the Python part reads (settings.py).
std::string settings_json(const RehearseOptions& options, const Cluster& cluster) {
  const GpuModel& gpu = cluster.gpu_model();
  nlohmann::ordered_json out;
  out["ranks"] = options.ranks;
  out["roles"] = options.roles;
  out["gpus_per_node"] = cluster.shape().gpus_per_node;
  out["gpu"] = gpu.name;
  out["memory_bytes"] = gpu.memory.value;
  out["pcie"] = gpu.pcie.value;
  out["processors"] = estimates::cost_profile(gpu).gemm_processors;
  out["json"] = options.json;
  out["allowed"] = options.allowed;
  out["trace"] = options.trace.empty() ? "" : fs::absolute(options.trace).string();
  out["prices_file"] = options.prices;
  out["prices"] = options.prices.empty() ? "" : text_of(options.prices);
  return out.dump();
}

/// Sets the environment of the program: that of a rank of a launched job.
void prepare_rank(const RehearseOptions& options, const Cluster& cluster, std::uint32_t rank) {
  const std::uint32_t each = cluster.shape().gpus_per_node;
  set_variable("ORRERY_REHEARSE", settings_json(options, cluster));
  for (const char* name : {"RANK", "ROLE_RANK"}) set_variable(name, std::to_string(rank));
  set_variable("LOCAL_RANK", std::to_string(rank % each));
  set_variable("GROUP_RANK", std::to_string(rank / each));
  set_variable("WORLD_SIZE", std::to_string(options.ranks));
  set_variable("LOCAL_WORLD_SIZE", std::to_string(std::min(options.ranks, each)));
  set_variable("MASTER_ADDR", "127.0.0.1");
  set_variable("MASTER_PORT", "29500");
}

/// Returns "rank 0" or "ranks 0, 8".
std::string ranks_text(const std::vector<std::uint32_t>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

void announce(const RehearseOptions& options, const Cluster& cluster) {
  fmt::print(stderr,
             "rehearsing {} of {} on {} nodes of {} ({}{}{}): {}\n"
             "no GPU is used: device operators and collectives are priced and the clock is "
             "simulated\n",
             ranks_text(options.roles), options.ranks,
             (options.ranks - 1) / cluster.shape().gpus_per_node + 1, options.cluster_name(),
             cluster.gpu_model().name, options.stack.empty() ? "" : ", stack ", options.stack,
             fmt::join(options.program, " "));
}

/// Prints the report of a rehearsal, with the simulation of the recorded step if there is one.
void print_reports(const std::string& rehearsal, const Report* simulation, bool json) {
  if (!json) {
    fmt::print(stderr, "{}", rehearsal);
    if (simulation != nullptr) fmt::print(stderr, "\n{}", report_summary(*simulation));
    return;
  }
  if (simulation == nullptr) {
    fmt::print("{}", rehearsal);
    return;
  }
  auto both = nlohmann::ordered_json::parse(rehearsal);
  both["simulation"] = nlohmann::ordered_json::parse(report_json(*simulation));
  fmt::print("{}\n", both.dump());
}

/// Says that an option needs ranks that are alike, and returns the exit code.
int refuse_roles(const RehearseOptions& options, const char* option, const char* expected) {
  fmt::print(stderr, "error: {}: expected {}, found {} with roles of their own\n", option, expected,
             ranks_text(options.roles));
  return static_cast<int>(ErrorKind::environment);
}

/// Reports a rehearsal that ended well, and simulates its recorded step. Returns the exit code.
int simulate_step(const RehearseOptions& options, const std::string& rehearsal) {
  if (!is_file(options.trace + ".0.et")) {
    print_reports(rehearsal, nullptr, options.json);
    if (options.roles.size() > 1) {
      return refuse_roles(options, "--scenario",
                          "ranks that are alike, or the stages of a pipeline of PyTorch");
    }
    fmt::print(stderr,
               "error: expected an optimizer step, whose recording --scenario simulates, "
               "found none\n");
    return static_cast<int>(ErrorKind::environment);
  }
  try {
    const Report simulation = recorded_run(options).simulate_recording(options.trace);
    print_reports(rehearsal, &simulation, options.json);
    return simulation.has_unfinished() ? static_cast<int>(ErrorKind::goal_missed) : 0;
  } catch (const Error&) {
    print_reports(rehearsal, nullptr, options.json);
    throw;
  }
}

int vary(const RehearseOptions& options) {
  const std::vector<Combination> combinations = combinations_of(variables_in(options.vary));
  with_values(options.program, combinations.front());
  std::vector<std::string> command{
      sibling_program("orrery"),     "rehearse",  "--json",       "--ranks",
      std::to_string(options.ranks), "--cluster", options.cluster};
  const auto add = [&command](const char* name, const std::string& value) {
    if (!value.empty()) command.insert(command.end(), {name, value});
  };
  add("--gpu", options.gpu);
  add("--prices", options.prices);
  add("--stack", options.stack);
  for (const std::string& name : options.allowed) add("--allow-stand-in", name);
  if (!options.roles.empty()) add("--roles", fmt::format("{}", fmt::join(options.roles, ",")));
  command.push_back("--");
  command.insert(command.end(), options.program.begin(), options.program.end());
  cluster_of(options);  // its errors are no combination's
  software_of(options);
  const bool shows = isatty(STDERR_FILENO) == 1;
  const auto progress = [&](std::size_t ended, std::size_t failed) {
    if (!shows) return;
    fmt::print(stderr, "\rrehearsed {} of {} combinations, {} failed{}", ended, combinations.size(),
               failed, ended == combinations.size() ? "\n" : "");
    std::fflush(stderr);
  };
  const std::vector<Trial> trials = run_trials(command, combinations, progress);
  if (options.json) {
    fmt::print("{}\n", trials_json(trials).dump());
  } else {
    fmt::print("{}", trial_table(trials));
  }
  return trials.front().reason.empty() ? 0 : static_cast<int>(ErrorKind::goal_missed);
}

/// Adds ranks that are rehearsed side by side, in rising order. Throws a usage Error for a rank
/// that the job lacks, and for too many.
void add_roles(RehearseOptions& options, const std::vector<std::uint32_t>& added) {
  std::set<std::uint32_t> all(options.roles.begin(), options.roles.end());
  all.insert(added.begin(), added.end());
  if (*all.rbegin() >= options.ranks || all.size() > kMostRoles) {
    throw Error(ErrorKind::usage,
                fmt::format("--roles: expected at most {} ranks below {}, found {} up to {}",
                            kMostRoles, options.ranks, all.size(), *all.rbegin()));
  }
  options.roles.assign(all.begin(), all.end());
}

/// Runs the processes of a rehearsal, again with more of them if the program needs other roles, and
/// returns the status of the program.
ExitStatus run_program(RehearseOptions& options, const Cluster& cluster, PriceServer& server,
                       const std::string& program) {
  const RehearsedProgram started{program,
                                 {options.program.begin() + 1, options.program.end()},
                                 [&](std::uint32_t rank) { prepare_rank(options, cluster, rank); }};
  for (;;) {
    announce(options, cluster);
    const StandardOutputAside aside(options.json);
    const RolesOutcome outcome = run_roles(started, options.roles, server);
    if (outcome.needed.empty()) return outcome.status;
    add_roles(options, outcome.needed);
    fmt::print(stderr,
               "found messages between ranks: starting again with a process for each of {} "
               "(--roles {} begins with them)\n",
               ranks_text(options.roles), fmt::join(options.roles, ","));
  }
}

int rehearse(RehearseOptions options) {
  check_options(options);
  add_roles(options, {0});
  if (!options.vary.empty()) return vary(options);
  std::optional<TemporaryFolder> folder;
  if (!options.scenario.empty() && options.trace.empty()) {
    options.trace = folder.emplace("orrery-rehearse").path_of("step");
  }
  // A file of an earlier rehearsal would pass for that of this one.
  if (!options.trace.empty()) fs::remove(options.trace + ".0.et");
  const Cluster cluster = cluster_of(options);
  const std::optional<SoftwareStack> stack = software_of(options);
  const fs::path programs = programs_folder();
  const std::string program = executable_named(options.program.front());
  if (program.empty()) {
    fmt::print(stderr, "error: {}: expected a program, found none of this name\n",
               options.program.front());
    return kProgramNotFound;
  }
  attach_through_path(programs);
  estimates::OperatorPrices prices(cluster, options.ranks, stack ? &*stack : nullptr);
  PriceServer server(prices);
  const ExitStatus status = run_program(options, cluster, server, program);
  if (server.report().empty()) {
    fmt::print(stderr,
               "no report: expected a Python program that imports torch, '{}' attached no "
               "rehearsal ({})\n",
               options.program.front(), status.description());
    return status.code != 0 ? status.code : static_cast<int>(ErrorKind::environment);
  }
  if (status.code == 0 && !options.scenario.empty()) return simulate_step(options, server.report());
  print_reports(server.report(), nullptr, options.json);
  const std::size_t roles = options.roles.size();
  if (status.code == 0 && !options.trace.empty() && roles > 1 && roles < options.ranks &&
      !is_file(options.trace + ".0.et")) {
    return refuse_roles(options, "--trace",
                        "ranks that are alike, the stages of a pipeline of PyTorch, or a process "
                        "for each rank");
  }
  return status.code;
}

void declare(CLI::App& command, const std::shared_ptr<RehearseOptions>& options) {
  whole_number(*command.add_option("--ranks", options->ranks, "ranks of the job"), 1, 131072)
      .type_name("N")
      ->required();
  command
      .add_option("--cluster", options->cluster,
                  "cluster preset (orrery list clusters), with as many nodes as the ranks need, "
                  "or a topology (YAML); not needed with --scenario")
      ->type_name("NAME|FILE.yaml");
  command.add_option("--gpu", options->gpu, "GPU model in place of the cluster's")
      ->type_name("NAME");
  command
      .add_option("--prices", options->prices,
                  "prices of operators that the kernel tables lack, one a line")
      ->type_name("FILE");
  command
      .add_option("--stack", options->stack,
                  "software stack whose factors on kernels and links the prices have (orrery list "
                  "stacks), or a file of orrery calibrate --runs; default: none")
      ->type_name("NAME|FILE.yaml");
  command
      .add_option("--trace", options->trace,
                  "write the last step as a Chakra execution trace, PREFIX.0.et, for orrery import "
                  "chakra --ranks N")
      ->type_name("PREFIX");
  or_example(*command.add_option("--scenario", options->scenario,
                                 "simulate the recorded step under the faults and policies of this "
                                 "scenario (YAML, or the name of a shipped example), on its "
                                 "cluster unless --cluster is given"))
      .type_name("FILE.yaml");
  add_policy_option(command, options->policies);
  command
      .add_option("--roles", options->roles,
                  "ranks that run side by side because their work differs, such as the stages of a "
                  "pipeline; found by themselves where ranks exchange messages")
      ->delimiter(',')
      ->type_name("RANK,RANK")
      ->allow_extra_args(false);
  command
      .add_option("--vary", options->vary,
                  "rehearse the program for each combination of values, in parallel, with {NAME} "
                  "in its arguments replaced, and rank the results")
      ->type_name("'NAME=VALUE,... NAME=FIRST..LAST'");
  command
      .add_option("--allow-stand-in", options->allowed,
                  "go on where a branch or a shape depends on a value of this operator, which "
                  "no kernel computed; repeatable")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command.add_flag("--json", options->json,
                   "print the report as one JSON object; the program prints to standard error");
  command
      .add_option("PROGRAM", options->program,
                  "program with its arguments, after --: python train.py ... or torchrun ... "
                  "train.py ...")
      ->required();
  add_examples(command,
               {"orrery rehearse --ranks 1024 --cluster dgx-h100 -- python train.py --lr 3e-4",
                "orrery rehearse --ranks 64 --cluster dgx-a100 --json -- torchrun train.py",
                "orrery rehearse --ranks 64 --scenario faults.yaml --policy recover -- python "
                "train.py",
                "orrery rehearse --ranks 64 --cluster dgx-h100 --vary 'tp=1,2,4,8 mbs=1..4' -- "
                "python train.py --tp {tp} --micro-batch {mbs}"});
}

}  // namespace

void add_rehearse(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<RehearseOptions>();
  CLI::App* command = app.add_subcommand(
      "rehearse",
      "run a PyTorch program without a GPU as one rank of a cluster, in simulated time");
  declare(*command, options);
  command->callback([options, &chosen] { chosen = [options] { return rehearse(*options); }; });
}

}  // namespace orrery::cli
