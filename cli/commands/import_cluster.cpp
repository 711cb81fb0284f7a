// orrery import cluster: writes the cluster and the queue of a Slurm or a Kubernetes cluster.
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/cluster_output.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/kubernetes_access.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "core/schema/names.hpp"
#include "core/schema/yaml_writer.hpp"
#include "live/kubernetes/cluster_import.hpp"
#include "live/slurm/cluster_import.hpp"
#include "live/slurm/commands.hpp"
#include "live/slurm/keeper_job.hpp"
#include "traces/clusters/cluster_file.hpp"
#include "traces/files/csv.hpp"
#include "traces/scenario.pb.h"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kPatience{30};

/// Schedulers whose cluster can be imported.
enum class Scheduler : std::uint8_t { slurm, kubernetes };
constexpr std::array<std::string_view, 2> names_of(Scheduler) { return {"slurm", "kubernetes"}; }

struct ImportClusterOptions : KubernetesAccess {
  std::string scheduler{name_of(Scheduler::slurm)};
  std::vector<std::string> files, partitions;
  std::string out, queue;
  ClusterChoices choices;
};

/// Adds the switches that Slurm knows; nothing if it knows none.
void add_switches(live::SlurmCommands& slurm, ClusterFacts& facts) {
  std::string conf;
  try {
    conf = live::topology_conf(slurm.read_topology());
  } catch (const Error& error) {
    facts.ignored.push_back(fmt::format("switches: {}", error.message()));
    return;
  }
  if (conf.empty()) return;
  ClusterFacts switches = parse_cluster_file(conf, "answer of scontrol show topology");
  switches.nodes = 0;  // also nodes without GPUs
  merge_facts(facts, switches);
}

std::string beside(const std::string& scenario, const char* ending) {
  return (fs::path(scenario).parent_path() / (fs::path(scenario).stem().string() + ending))
      .string();
}

/// Writes the jobs as a log, and the scenario that replays them on the cluster.
void write_queue(const ImportClusterOptions& options, const live::QueuedJobs& queued,
                 const Topology& cluster) {
  if (queued.jobs.empty()) {
    throw Error(ErrorKind::bad_input,
                fmt::format("expected jobs with GPUs and a time limit in the queue, found none{}{}",
                            queued.ignored.empty() ? "" : "; left out: ",
                            fmt::join(queued.ignored, ", ")));
  }
  const std::string log = beside(options.queue, "-jobs.csv");
  JobReplay replay;
  replay.set_trace(fs::path(log).filename().string());
  *replay.mutable_cluster() = cluster;
  replay.set_policy("easy");
  replay.set_estimates("requested");
  OutputFile scenario(options.queue);
  write_file(log, job_trace_csv(queued.jobs));
  std::string text = "# Written by orrery import cluster; for orrery jobs.\n";
  for (const std::string& each : queued.assumed) text += fmt::format("# assumed: {}\n", each);
  for (const std::string& each : queued.ignored) text += fmt::format("# ignored: {}\n", each);
  scenario.write_and_rename(text + to_yaml_file(replay));
  for (const std::string& each : queued.assumed) fmt::print(stderr, "assumed: {}\n", each);
  for (const std::string& each : queued.ignored) fmt::print(stderr, "ignored: {}\n", each);
  fmt::print("{}: {} jobs\n", options.queue, queued.jobs.size());
}

/// Writes the cluster that the scheduler's facts and the files describe.
Topology write_described(const ImportClusterOptions& options, ClusterFacts facts,
                         OutputFile& file) {
  for (const std::string& each : options.files) {
    merge_facts(facts, parse_cluster_file(read_packed_text(each), each));
  }
  return write_cluster(options.choices, facts, options.out, file);
}

int import_slurm(const ImportClusterOptions& options) {
  OutputFile file(options.out);
  const auto slurm = live::installed_slurm(kPatience);
  const std::set<std::string> partitions(options.partitions.begin(), options.partitions.end());
  const std::vector<live::SlurmNode> all = live::parse_nodes(slurm->read_nodes());
  const live::NodeMap nodes(live::managed_nodes(all, partitions));
  ClusterFacts facts = live::node_facts("Slurm", {all.begin(), all.end()}, nodes);
  add_switches(*slurm, facts);
  const Topology cluster = write_described(options, std::move(facts), file);
  if (options.queue.empty()) return 0;
  write_queue(options, live::queued_jobs(live::KeeperFinder(*slurm).read_jobs(), partitions),
              cluster);
  return 0;
}

int import_kubernetes(const ImportClusterOptions& options) {
  OutputFile file(options.out);
  live::AdapterProgram program = options.adapter_program();
  program.patience = kPatience;
  const live::KubeReading reading = live::start_adapter(std::move(program))->read_cluster(false);
  const Topology cluster = write_described(options, live::rack_facts(reading.nodes), file);
  for (const std::string& each : reading.problems) fmt::print(stderr, "problem: {}\n", each);
  if (options.queue.empty()) return 0;
  write_queue(options, live::queued_gangs(reading.gangs), cluster);
  return 0;
}

/// Throws a usage error for a word that is neither a scheduler nor a file, an option of the other
/// scheduler, and a queue without namespaces.
void check(const ImportClusterOptions& options, bool is_kubernetes) {
  for (const std::string& file : options.files) {
    std::error_code unknown;
    if (fs::exists(file, unknown)) continue;
    throw Error(ErrorKind::usage,
                fmt::format("expected slurm, kubernetes or a file, found '{}'{}", file,
                            did_you_mean(file, all_names<Scheduler>())));
  }
  const bool has_access = !options.namespaces.empty() || !options.rack_labels.empty() ||
                          !options.kubeconfig.empty() || !options.context.empty();
  if (is_kubernetes && !options.partitions.empty()) {
    throw Error(ErrorKind::usage,
                "--partition: expected a Slurm, found kubernetes; give --namespace NS");
  }
  if (!is_kubernetes && has_access) {
    throw Error(ErrorKind::usage,
                "--namespace, --kubeconfig, --context, --rack-label: expected `import cluster "
                "kubernetes`, found slurm");
  }
  if (is_kubernetes && !options.queue.empty() && options.namespaces.empty()) {
    throw Error(ErrorKind::usage,
                "--queue: expected the namespaces whose gangs it gets, found none; give "
                "--namespace NS");
  }
}

int import_cluster(const ImportClusterOptions& options) {
  const bool is_kubernetes = named<Scheduler>(options.scheduler) == Scheduler::kubernetes;
  check(options, is_kubernetes);
  return is_kubernetes ? import_kubernetes(options) : import_slurm(options);
}

/// Declares the options that select the jobs and complete the description of the nodes.
void declare_selection(CLI::App& command, ImportClusterOptions& options) {
  command.add_option("--partition", options.partitions,
                     "Slurm: only this partition (repeatable)")
      ->type_name("NAME");
  command
      .add_option("--namespace", options.namespaces,
                  "Kubernetes: namespace whose gangs --queue writes; repeat for several")
      ->type_name("NS")
      ->allow_extra_args(false);
  options.add_access(command);
  command
      .add_option("--gpu", options.choices.gpu,
                  "GPU (orrery list gpus), where the types of the nodes name none")
      ->type_name("NAME");
}

}  // namespace

void add_import_cluster(CLI::App& command, Action& chosen) {
  const auto options = std::make_shared<ImportClusterOptions>();
  CLI::App* cluster = command.add_subcommand(
      "cluster",
      "a running Slurm or Kubernetes cluster: its nodes as a cluster, its queue as a scenario of "
      "orrery jobs");
  cluster->validate_positionals();  // a FILE may follow directly
  one_of(*cluster->add_option("SCHEDULER", options->scheduler,
                              "the Slurm whose commands are in PATH, or the Kubernetes cluster of "
                              "kubectl"),
         all_names<Scheduler>())
      .capture_default_str();
  cluster->add_option("FILE", options->files,
                      "files about a node or the network that complete what the scheduler states, "
                      "as for import cluster-file");
  declare_selection(*cluster, *options);
  cluster->add_option("-o,--output", options->out, "cluster to write")
      ->type_name("OUT.yaml")
      ->required();
  cluster
      ->add_option("--queue", options->queue,
                   "also write the jobs that wait or run now: a scenario, and beside it their log")
      ->type_name("QUEUE.yaml");
  add_examples(*cluster, {"orrery import cluster -o cluster.yaml --gpu H100",
                          "orrery import cluster slurm -o cluster.yaml --queue queue.yaml",
                          "orrery import cluster kubernetes --namespace ml -o cluster.yaml --queue "
                          "queue.yaml",
                          "orrery jobs queue.yaml --policy fifo,easy,srtf"});
  cluster->callback(
      [options, &chosen] { chosen = [options] { return import_cluster(*options); }; });
}

}  // namespace orrery::cli
