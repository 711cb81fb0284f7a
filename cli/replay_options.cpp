#include "cli/replay_options.hpp"

#include <algorithm>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/help.hpp"
#include "cli/usage.hpp"
#include "core/schema/yaml_loader.hpp"
#include "policies/placement/placer.hpp"
#include "policies/run/registry.hpp"
#include "topologies/builder.hpp"
#include "traces/jobs/cluster_log.hpp"

namespace orrery::cli {
namespace {

Error usage(const std::string& message) { return {ErrorKind::usage, message}; }

void load_description(const std::string& file, JobReplay& replay) {
  try {
    load_yaml_file(file, replay);
  } catch (const Error& error) {
    Scenario scenario;
    const auto is_scenario = [&] {
      try {
        load_yaml_file(file, scenario);
        return true;
      } catch (const Error&) {
        return false;
      }
    };
    if (!error.place() || !is_scenario()) throw;
    throw Error(SourcePlace{.file = file, .line_text = ""},
                "expected a job trace (CSV), or YAML that names one with the key 'trace', got a "
                "scenario: those run under orrery simulate and orrery live");
  }
}

/// The replay that a YAML file describes, or an empty one of a trace.
JobReplay described(const std::string& file) {
  JobReplay replay;
  const std::filesystem::path path(file);
  if (path.extension() == ".yaml" || path.extension() == ".yml") {
    load_description(file, replay);
    replay.set_trace((path.parent_path() / replay.trace()).string());
  } else {
    replay.set_trace(file);
    replay.set_placement("count");
  }
  return replay;
}

/// What an operator has of his cluster: its nodes with GPUs, which have to be alike.
void take_nodes(JobReplay& replay, const std::string& file) {
  std::map<std::uint32_t, std::uint32_t> nodes;  // by GPUs
  for (const NodeRecord& node : load_cluster_log(file)) nodes[node.gpus] += node.gpus > 0 ? 1 : 0;
  nodes.erase(0);
  if (nodes.size() > 1) {
    std::vector<std::string> kinds;
    for (const auto& [gpus, count] : nodes) {
      kinds.push_back(fmt::format("{} nodes of {} GPUs", count, gpus));
    }
    throw Error(SourcePlace{.file = file, .line_text = ""},
                fmt::format("has {}; a replay needs nodes that are alike: choose with --nodes and "
                            "--gpus-per-node",
                            fmt::join(kinds, ", ")));
  }
  replay.set_nodes(nodes.begin()->second);
  replay.set_gpus_per_node(nodes.begin()->first);
}

void take_cluster(JobReplay& replay, const std::string& file) {
  const std::string extension = std::filesystem::path(file).extension();
  if (extension != ".yaml" && extension != ".yml") return take_nodes(replay, file);
  Topology topology;
  const SourceMap places = load_yaml_file(file, topology);
  resolve(topology, places);
  replay.set_nodes(topology.nodes());
  replay.set_gpus_per_node(topology.node().gpus_per_node());
}

void take_policy(JobReplay& replay, const std::string& name) {
  const std::vector<std::string> known = policy_names();
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    throw usage(no_such_policy(name));
  }
  replay.set_policy(name);
}

void take_estimates(JobReplay& replay, const ReplayOptions& options) {
  if (!options.estimates.empty()) replay.set_estimates(options.estimates);
  if (options.estimate_error) replay.set_estimate_error(*options.estimate_error);
  if (options.seed) replay.set_seed(*options.seed);
  if (options.log.strict) replay.set_strict(true);
}

void declare_log(CLI::App& command, const std::shared_ptr<ReplayOptions>& options) {
  command.add_flag("--strict", options->log.strict, "refuse broken rows of other tools' logs");
  command
      .add_option("--throughputs", options->log.throughputs,
                  "steps per second of Gavel's jobs (simulation_throughputs.json)")
      ->type_name("FILE");
  command.add_option("--gpu", options->log.gpu, "which GPU's throughputs")
      ->type_name("NAME")
      ->capture_default_str();
}

void declare_estimates(CLI::App& command, const std::shared_ptr<ReplayOptions>& options) {
  one_of(*command.add_option("--estimates", options->estimates,
                             "what policies are told of how long jobs will run: the truth, what "
                             "users asked for, what jobs like them took before, the truth with an "
                             "error"),
         {"recorded", "requested", "learned", "disturbed"});
  number(*command.add_option("--estimate-error", options->estimate_error,
                             "of disturbed ones: standard deviation of the factor's logarithm"),
         0, 5)
      .type_name("E");
  command.add_option("--seed", options->seed, "of what is drawn")->type_name("N");
}

}  // namespace

JobReplay asked_for(const ReplayOptions& options) {
  JobReplay replay = described(options.file);
  if (!options.cluster.empty()) take_cluster(replay, options.cluster);
  if (options.nodes != 0) replay.set_nodes(options.nodes);
  if (options.gpus_per_node != 0) replay.set_gpus_per_node(options.gpus_per_node);
  for (const std::string& policy : options.policies) take_policy(replay, policy);
  take_estimates(replay, options);
  if (!options.placement.empty()) replay.set_placement(options.placement);
  if (replay.nodes() == 0 || replay.gpus_per_node() == 0) {
    throw usage("a trace needs a cluster: --nodes N --gpus-per-node G, or --cluster C.yaml");
  }
  if (replay.policy().empty()) throw usage("a trace needs a policy: --policy fifo, or another");
  return replay;
}

JobLog load_log(const JobReplay& replay, const ReplayOptions& options) {
  JobLogOptions reading = options.log;
  reading.strict = replay.strict();
  return load_job_log(replay.trace(), reading);
}

void declare_replay(CLI::App& command, const std::shared_ptr<ReplayOptions>& options) {
  command
      .add_option("FILE", options->file,
                  "job log (ours or another tool's, .gz too), or a YAML file naming one")
      ->type_name("TRACE|FILE.yaml")
      ->required();
  whole_number(*command.add_option("--nodes", options->nodes, "nodes of the cluster"), 1, 131072)
      .type_name("N");
  whole_number(*command.add_option("--gpus-per-node", options->gpus_per_node, "GPUs of each"), 1,
               128)
      .type_name("G");
  command
      .add_option("--cluster", options->cluster,
                  "instead of the two: a cluster description (YAML), slurm.conf, or what kubectl "
                  "get nodes -o json prints")
      ->type_name("C.yaml|FILE");
  command
      .add_option("--policy", options->policies,
                  "order of the queue: fifo, fifo-skip, sjf, easy, conservative, srtf, srsf, "
                  "las, gittins, finish-time-fairness, drf, max-min; several are put side by "
                  "side")
      ->type_name("P")
      ->delimiter(',');
  one_of(*command.add_option("--placement", options->placement,
                             "which GPUs a job gets: any that are free, those of as few nodes as "
                             "possible, gangs also within as few scalable units as possible"),
         placer_names());
  command.add_option("--record", options->record, "write the observation and decision log")
      ->type_name("LOG");
  declare_estimates(command, options);
  declare_log(command, options);
}

}  // namespace orrery::cli
