#include "cli/shared/replay_options.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/shared/help.hpp"
#include "cli/shared/policy_option.hpp"
#include "cli/shared/shipped_examples.hpp"
#include "cli/shared/usage.hpp"
#include "core/schema/yaml_loader.hpp"
#include "policies/placement/placer.hpp"
#include "policies/run/registry.hpp"
#include "topologies/builder.hpp"
#include "traces/jobs/cluster_log.hpp"
#include "traces/scenario/replay_conditions.hpp"

namespace orrery::cli {
namespace {

constexpr std::uint32_t kMaxNodes = 131072;

Error usage(const std::string& message) { return {ErrorKind::usage, message}; }

bool is_yaml(const std::filesystem::path& path) {
  return path.extension() == ".yaml" || path.extension() == ".yml";
}

/// Source of the conditions of a replay, for the places in messages.
struct Origin {
  SourceMap places;
  std::string prefix = "conditions.";
};

SourceMap load_description(const std::string& file, JobReplay& replay) {
  try {
    return load_yaml_file(file, replay);
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
    if (!error.source_place() || !is_scenario()) throw;
    throw Error(SourcePlace{.file = file, .line_text = ""},
                "expected a job trace (CSV), or YAML that names one with the key 'trace', got a "
                "scenario: those run under orrery simulate and orrery live");
  }
}

/// Makes the path of the outages relative to the folder of `file`, which names them.
void look_beside(const std::string& file, ReplayConditions& conditions) {
  if (conditions.outages().empty()) return;
  conditions.set_outages(
      (std::filesystem::path(file).parent_path() / conditions.outages()).string());
}

void take_topology(JobReplay& replay) {
  replay.set_nodes(replay.cluster().nodes());
  replay.set_gpus_per_node(replay.cluster().node().gpus_per_node());
}

/// Throws bad_input at `place` if the cluster has a file system.
void refuse_storage(const Topology& cluster, const SourcePlace& place) {
  if (!cluster.has_storage()) return;
  throw Error(place,
              "expected a cluster without a file system, because jobs of a log write and read no "
              "bytes: remove the key; orrery simulate has the traffic of one training job");
}

/// Returns the replay that a YAML file describes; for a job log, a replay of the log with placement
/// "count" and no other keys.
JobReplay described(const std::string& file, Origin& origin) {
  JobReplay replay;
  if (!is_yaml(file)) {
    replay.set_trace(file);
    replay.set_placement("count");
    return replay;
  }
  origin.places = load_description(file, replay);
  replay.set_trace((std::filesystem::path(file).parent_path() / replay.trace()).string());
  if (replay.has_conditions()) look_beside(file, *replay.mutable_conditions());
  if (!replay.has_cluster()) return replay;
  resolve(*replay.mutable_cluster(), origin.places, "cluster");
  refuse_storage(replay.cluster(), origin.places.place_of("cluster.storage"));
  take_topology(replay);
  return replay;
}

void take_conditions(JobReplay& replay, const ReplayOptions& options, Origin& origin) {
  if (!options.conditions.empty()) {
    origin = {load_yaml_file(options.conditions, *replay.mutable_conditions()), ""};
    look_beside(options.conditions, *replay.mutable_conditions());
  }
  if (!options.speed.empty()) replay.mutable_conditions()->set_speed(options.speed);
}

/// Returns the number of the replay's field with this key; 0 if the replay has no such field.
int field_of_replay(const std::string& key) {
  const auto* const field = JobReplay::descriptor()->FindFieldByName(key);
  return field == nullptr ? 0 : field->number();
}

/// Changes a parameter of a participating policy, or a key of the replay. `option`: the option that
/// `text` was given with, for messages.
void change(JobReplay& replay, const std::string& text, const ReplayOptions& options,
            const std::string& option) {
  const std::size_t equals = text.find('=');
  const std::string key = text.substr(0, equals);
  const std::string first = key.substr(0, key.find('.'));
  const std::vector<std::string> known = policy_names();
  if (std::find(known.begin(), known.end(), first) != known.end()) {
    const auto& asked = options.policies;
    if (first != replay.policy() && std::find(asked.begin(), asked.end(), first) == asked.end()) {
      throw usage(
          fmt::format("'{}': expected a parameter of a replayed policy; add the policy to "
                      "--policy",
                      text));
    }
    parameter_set(text);  // throws a usage error
    return replay.add_set(text);
  }
  if (equals == std::string::npos) {
    throw usage(fmt::format("'{}' is not KEY=VALUE, nor POLICY.PARAMETER=VALUE", text));
  }
  if (field_of_replay(key) == JobReplay::kPolicyFieldNumber && !options.policies.empty()) {
    throw usage(
        fmt::format("'{}': expected another key, because --policy names the policies; give "
                    "--policy {},{}",
                    text, fmt::join(options.policies, ","), text.substr(equals + 1)));
  }
  if (key == "cluster.nodes") {
    throw usage(
        fmt::format("{} '{}': expected the key nodes, which the cluster's description "
                    "follows: nodes={}",
                    option, text, text.substr(equals + 1)));
  }
  if (first == "conditions" && key.substr(key.find('.') + 1).starts_with("power")) {
    throw usage(fmt::format("{} '{}': expected the key power beside conditions, as in a scenario: "
                            "{}",
                            option, text, text.substr(key.find('.') + 1)));
  }
  set_field(replay, key, text.substr(equals + 1), option);
  if (!replay.cluster().has_storage()) return;
  throw usage(
      fmt::format("{} '{}': expected another key, found one without effect: jobs of a log write "
                  "and read no bytes of a file system",
                  option, text));
}

/// Returns the nodes with GPUs of an operator's list, of one kind of GPU if `kind` is not empty.
std::vector<NodeRecord> gpu_nodes(const std::string& file, const std::string& kind) {
  std::vector<NodeRecord> nodes = load_cluster_log(file);
  std::erase_if(nodes, [](const NodeRecord& node) { return node.gpus == 0; });
  if (kind.empty()) return nodes;
  std::set<std::string> kinds;
  for (const NodeRecord& node : nodes) kinds.insert(node.model);
  std::erase_if(nodes, [&kind](const NodeRecord& node) { return node.model != kind; });
  if (!nodes.empty()) return nodes;
  throw Error(SourcePlace{.file = file, .line_text = ""},
              fmt::format("--gpu-kind {}: expected nodes with this kind of GPU, found ({}): give "
                          "--nodes and --gpus-per-node",
                          kind, fmt::join(kinds, ", ")));
}

void add_node_kind(JobReplay& replay, const std::string& kind, std::uint32_t nodes) {
  const int last = replay.node_kinds_size() - 1;
  if (last < 0 || replay.node_kinds(last).kind() != kind) {
    replay.add_node_kinds()->set_kind(kind);
  }
  NodeKind& each = *replay.mutable_node_kinds()->rbegin();
  each.set_nodes(each.nodes() + nodes);
}

/// Throws the refusal of nodes of several sizes, with the options that choose one of them.
[[noreturn]] void refuse_sizes(const std::string& file, const std::vector<NodeRecord>& listed) {
  std::map<std::uint32_t, std::uint32_t> nodes;  // keyed by GPUs
  std::map<std::string, std::set<std::uint32_t>> sizes;  // keyed by kind
  for (const NodeRecord& node : listed) {
    ++nodes[node.gpus];
    sizes[node.model].insert(node.gpus);
  }
  std::vector<std::string> found;
  for (const auto& [gpus, count] : nodes) {
    found.push_back(fmt::format("{} nodes of {} GPUs", count, gpus));
  }
  std::string remedy = fmt::format("replay the nodes of one size, for example with --nodes {} "
                                   "--gpus-per-node {} in place of --cluster",
                                   nodes.rbegin()->second, nodes.rbegin()->first);
  for (const auto& [kind, each] : sizes) {
    if (kind.empty() || each.size() > 1 || sizes.size() < 2) continue;
    remedy += fmt::format(", or those of one kind and their jobs with --gpu-kind {}", kind);
    break;
  }
  throw Error(SourcePlace{.file = file, .line_text = ""},
              fmt::format("expected equal nodes, got {}: {}", fmt::join(found, ", "), remedy));
}

/// Sets the cluster from the operator's list of nodes. All nodes with GPUs, of the kind if one is
/// requested, must have equally many. A single kind counts only if it is requested.
void take_nodes(JobReplay& replay, const std::string& file, const std::string& kind) {
  const std::vector<NodeRecord> listed = gpu_nodes(file, kind);
  for (const NodeRecord& node : listed) {
    if (node.gpus != listed.front().gpus) refuse_sizes(file, listed);
  }
  replay.set_nodes(static_cast<std::uint32_t>(listed.size()));
  replay.set_gpus_per_node(listed.front().gpus);
  replay.clear_node_kinds();
  for (const NodeRecord& node : listed) add_node_kind(replay, node.model, 1);
  if (replay.node_kinds_size() == 1 && kind.empty()) replay.clear_node_kinds();
}

/// Sets the nodes of the option --node-kinds, KIND:NODES.
void take_node_kinds(JobReplay& replay, const std::vector<std::string>& kinds) {
  replay.clear_node_kinds();
  std::uint64_t sum = 0;
  for (const std::string& each : kinds) {
    const std::size_t colon = each.rfind(':');
    std::uint32_t nodes = 0;
    const char* const end = each.data() + each.size();
    const char* const begin = colon == std::string::npos ? end : each.data() + colon + 1;
    const auto [stop, error] = std::from_chars(begin, end, nodes);
    if (colon == 0 || error != std::errc{} || stop != end || nodes < 1 || nodes > kMaxNodes) {
      throw usage(
          fmt::format("--node-kinds: expected a kind of GPU and a number of nodes, such as "
                      "A100:4, found '{}'",
                      each));
    }
    add_node_kind(replay, each.substr(0, colon), nodes);
    sum += nodes;
  }
  replay.set_nodes(static_cast<std::uint32_t>(std::min<std::uint64_t>(sum, kMaxNodes + 1)));
}

void take_cluster(JobReplay& replay, const ReplayOptions& options) {
  const std::string& file = options.cluster;
  if (!is_yaml(file)) return take_nodes(replay, file, options.log.gpu_kind);
  Topology& topology = *replay.mutable_cluster();
  const SourceMap places = load_yaml_file(file, topology);
  resolve(topology, places);
  refuse_storage(topology, places.place_of("storage"));
  take_topology(replay);
}

void take_policy(JobReplay& replay, const std::string& name) {
  check_policy_name(name);
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
  command.add_option("--gpu", options->log.gpu, "GPU whose throughputs are used")
      ->type_name("NAME")
      ->capture_default_str();
  command
      .add_option("--gpu-kind", options->log.gpu_kind,
                  "only jobs that may have this kind of GPU, as the log names it")
      ->type_name("KIND");
  command
      .add_option("--columns", options->log.columns,
                  "columns of a log of sacct without a header, between commas")
      ->type_name("NAMES");
}

void declare_estimates(CLI::App& command, const std::shared_ptr<ReplayOptions>& options) {
  one_of(*command.add_option("--estimates", options->estimates,
                             "estimated durations that policies see: the recorded ones, the "
                             "users' requests, those of similar earlier jobs, the recorded ones "
                             "with an error"),
         all_names<EstimateKind>());
  number(*command.add_option("--estimate-error", options->estimate_error,
                             "disturbed estimates: standard deviation of the factor's logarithm"),
         0, 5)
      .type_name("E");
  command.add_option("--seed", options->seed, "of what is drawn")->type_name("N");
}

/// Call after all options that exclude this one.
void declare_node_kinds(CLI::App& command, const std::shared_ptr<ReplayOptions>& options) {
  command
      .add_option("--node-kinds", options->node_kinds,
                  "instead of --nodes: kinds of GPUs with their nodes, for jobs that name kinds: "
                  "A100:4,V100:8")
      ->type_name("KIND:N")
      ->delimiter(',')
      ->excludes("--nodes")
      ->excludes("--cluster")
      ->excludes("--gpu-kind");
}

}  // namespace

JobReplay asked_for(const ReplayOptions& options, const std::vector<std::string>& changes) {
  Origin origin;
  JobReplay replay = described(options.file, origin);
  if (!options.cluster.empty()) take_cluster(replay, options);
  if (options.nodes != 0) {
    replay.set_nodes(options.nodes);
    replay.clear_node_kinds();
  }
  if (!options.node_kinds.empty()) take_node_kinds(replay, options.node_kinds);
  if (options.gpus_per_node != 0) replay.set_gpus_per_node(options.gpus_per_node);
  for (const std::string& policy : options.policies) take_policy(replay, policy);
  take_estimates(replay, options);
  if (!options.placement.empty()) replay.set_placement(options.placement);
  take_conditions(replay, options, origin);
  for (const std::string& each : options.changes) change(replay, each, options, "--set");
  for (const std::string& each : changes) change(replay, each, options, "--what-if");
  if (replay.nodes() == 0 || replay.gpus_per_node() == 0) {
    throw usage(
        "expected a cluster for the trace, got none: give --nodes N --gpus-per-node G, "
        "or --cluster C.yaml");
  }
  if (replay.policy().empty())
    throw usage(
        "expected a policy for the trace, got none: give "
        "--policy fifo, or another");
  if (replay.has_cluster()) {
    if (replay.gpus_per_node() != replay.cluster().node().gpus_per_node()) {
      throw usage("--gpus-per-node differs from that of the cluster's description: leave it out");
    }
    replay.mutable_cluster()->set_nodes(replay.nodes());
  }
  if (replay.has_conditions()) {
    complete(*replay.mutable_conditions(), origin.places, origin.prefix);
  }
  return replay;
}

std::vector<std::string> node_names(const ReplayOptions& options) {
  std::vector<std::string> names;
  if (options.cluster.empty() || is_yaml(options.cluster)) return names;
  for (const NodeRecord& node : gpu_nodes(options.cluster, options.log.gpu_kind)) {
    names.push_back(node.name);
  }
  return names;
}

JobLog load_log(const JobReplay& replay, const ReplayOptions& options) {
  JobLogOptions reading = options.log;
  reading.strict = replay.strict();
  reading.gpus_per_node = replay.gpus_per_node();
  JobLog log = load_job_log(replay.trace(), reading);
  check_estimates(replay, log.jobs);
  return log;
}

void check_estimates(const JobReplay& replay, const std::vector<TraceJob>& jobs) {
  const bool asked = std::any_of(jobs.begin(), jobs.end(),
                                 [](const TraceJob& job) { return job.requested_s > 0; });
  if (find_named<EstimateKind>(replay.estimates()) != EstimateKind::requested || asked) return;
  throw Error(SourcePlace{.file = replay.trace(), .line_text = ""},
              fmt::format("--estimates requested: expected a log with requested times, found none "
                          "in its {} jobs; choose --estimates learned",
                          jobs.size()));
}

std::string known_estimates(const std::vector<TraceJob>& jobs) {
  const bool asked = std::any_of(jobs.begin(), jobs.end(),
                                 [](const TraceJob& job) { return job.requested_s > 0; });
  return std::string(name_of(asked ? EstimateKind::requested : EstimateKind::learned));
}

void declare_replay(CLI::App& command, const std::shared_ptr<ReplayOptions>& options) {
  or_example(*command.add_option("FILE", options->file,
                                 "job log (Orrery's or another tool's, .gz too), a YAML file that "
                                 "names one, or the name of a shipped example"))
      .type_name("TRACE|FILE.yaml")
      ->required();
  whole_number(*command.add_option("--nodes", options->nodes, "nodes of the cluster"), 1, 131072)
      .type_name("N");
  whole_number(*command.add_option("--gpus-per-node", options->gpus_per_node,
                                   "GPUs of each "
                                   "node"),
               1, 128)
      .type_name("G");
  command
      .add_option("--cluster", options->cluster,
                  "alternative to --nodes and --gpus-per-node: a cluster description (YAML), "
                  "slurm.conf, the output of kubectl get nodes -o json, or openb's list of nodes "
                  "(CSV)")
      ->type_name("C.yaml|FILE");
  command
      .add_option("--policy", options->policies,
                  "order of the queue: fifo, fifo-skip, sjf, easy, conservative, srtf, srsf, las, "
                  "priority, gittins, finish-time-fairness, drf, max-min, multifactor, elastic, "
                  "FILE.py[:CLASS], or a program; several are compared")
      ->type_name("P")
      ->delimiter(',');
  one_of(*command.add_option("--placement", options->placement,
                             "placement: any free GPUs, those of as few nodes as possible, gangs "
                             "also within as few scalable units as possible"),
         placer_names());
  command.add_option("--record", options->record, "write the observation and decision log")
      ->type_name("LOG");
  one_of(*command.add_option("--speed", options->speed,
                             "duration of jobs: as recorded, or simulated by their steps at "
                             "their places, beside the others (needs --cluster C.yaml and the "
                             "jobs' work: --conditions, or the file)"),
         all_names<JobSpeed>());
  command
      .add_option("--conditions", options->conditions,
                  "work of the jobs, cost of restarts, node failures (YAML, as the key "
                  "'conditions')")
      ->type_name("C.yaml");
  command
      .add_option("--set", options->changes,
                  "KEY=VALUE of a replay's file, or POLICY.PARAMETER=VALUE: "
                  "conditions.restart_cost=60s, max-min.quotas=[{vc: a, gpus: 16}], "
                  "power.limits=[{share: 80%, from: 8 h, until: 20 h, every: 24 h}]")
      ->type_name("CHANGE")
      ->allow_extra_args(false);
  declare_estimates(command, options);
  declare_log(command, options);
  declare_node_kinds(command, options);
}

}  // namespace orrery::cli
