// orrery rehearse: runs an unchanged PyTorch program as one of N ranks of a cluster that does not
// exist, and prices its operators and collectives.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/help.hpp"
#include "cli/price_server.hpp"
#include "cli/usage.hpp"
#include "cli/user_program.hpp"
#include "core/error.hpp"
#include "core/process.hpp"
#include "topologies/builder.hpp"
#include "traces/report/report.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;

struct RehearseOptions {
  std::uint32_t ranks = 0;
  std::string cluster, gpu, trace, prices;
  std::vector<std::string> allowed, program;
  bool json = false;
};

/// Returns the topology of a preset or of a file, with as many nodes as the ranks need if the
/// topology is a preset.
Cluster cluster_of(const RehearseOptions& options) {
  Topology topology;
  SourceMap places;
  if (fs::is_regular_file(options.cluster)) {
    places = load_yaml_file(options.cluster, topology);
  } else {
    topology.set_preset(options.cluster);
    topology.set_nodes(1);
    Topology one = topology;
    resolve(one, {});
    const std::uint32_t each = one.node().gpus_per_node();
    topology.set_nodes((options.ranks + each - 1) / each);
  }
  if (!options.gpu.empty()) topology.mutable_node()->set_gpu(options.gpu);
  resolve(topology, places);
  Cluster cluster = build_cluster(topology, places);
  if (options.ranks > cluster.gpus()) {
    throw Error(ErrorKind::bad_input,
                fmt::format("{}: expected a GPU for each of {} ranks, found {} GPUs: add nodes to "
                            "the cluster or choose fewer --ranks",
                            options.cluster, options.ranks, cluster.gpus()));
  }
  return cluster;
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

/// Sets the environment of the program: that of rank 0 of a launched job, and the folder through
/// which every Python attaches the rehearsal.
void prepare_environment(const RehearseOptions& options, const Cluster& cluster,
                         const fs::path& programs) {
  const std::uint32_t local = std::min(options.ranks, cluster.shape().gpus_per_node);
  set_variable("ORRERY_REHEARSE", settings_json(options, cluster));
  for (const char* zero : {"RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK"}) {
    set_variable(zero, "0");
  }
  set_variable("WORLD_SIZE", std::to_string(options.ranks));
  set_variable("LOCAL_WORLD_SIZE", std::to_string(local));
  set_variable("MASTER_ADDR", "127.0.0.1");
  set_variable("MASTER_PORT", "29500");
  attach_through_path(programs);
}

void announce(const RehearseOptions& options, const Cluster& cluster) {
  fmt::print(stderr,
             "rehearsing rank 0 of {} on {} nodes of {} ({}): {}\n"
             "no GPU is used: device operators and collectives are priced and the clock is "
             "simulated\n",
             options.ranks, (options.ranks - 1) / cluster.shape().gpus_per_node + 1,
             options.cluster, cluster.gpu_model().name, fmt::join(options.program, " "));
}

int rehearse(const RehearseOptions& options) {
  const Cluster cluster = cluster_of(options);
  const fs::path programs = programs_folder();
  const std::string program = executable_named(options.program.front());
  if (program.empty()) {
    fmt::print(stderr, "error: {}: expected a program, found none of this name\n",
               options.program.front());
    return kProgramNotFound;
  }
  prepare_environment(options, cluster, programs);
  announce(options, cluster);
  estimates::OperatorPrices prices(cluster, options.ranks);
  PriceServer server(prices);
  ExitStatus status;
  {
    const StandardOutputAside aside(options.json);
    ChildProcess child(program, {options.program.begin() + 1, options.program.end()});
    serve_prices(server, child.channel());
    status = child.wait();
  }
  if (server.report().empty()) {
    fmt::print(stderr,
               "no report: expected a Python program that imports torch, '{}' attached no "
               "rehearsal ({})\n",
               options.program.front(), status.description());
    return status.code != 0 ? status.code : static_cast<int>(ErrorKind::environment);
  }
  fmt::print(options.json ? stdout : stderr, "{}", server.report());
  return status.code;
}

void declare(CLI::App& command, const std::shared_ptr<RehearseOptions>& options) {
  whole_number(*command.add_option("--ranks", options->ranks, "ranks of the job"), 1, 131072)
      .type_name("N")
      ->required();
  command
      .add_option("--cluster", options->cluster,
                  "cluster preset (orrery list clusters), with as many nodes as the ranks need, "
                  "or a topology (YAML)")
      ->type_name("NAME|FILE.yaml")
      ->required();
  command.add_option("--gpu", options->gpu, "GPU model in place of the cluster's")
      ->type_name("NAME");
  command
      .add_option("--prices", options->prices,
                  "prices of operators that the kernel tables lack, one a line")
      ->type_name("FILE");
  command
      .add_option("--trace", options->trace,
                  "write the last step as a Chakra execution trace, PREFIX.0.et, for orrery import "
                  "chakra --ranks N")
      ->type_name("PREFIX");
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
                "orrery rehearse --ranks 64 --cluster dgx-a100 --json -- torchrun train.py"});
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
