// orrery import cluster: writes the cluster and the queue of the Slurm whose commands are in PATH.
#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/cluster_output.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "core/schema/yaml_writer.hpp"
#include "live/slurm/cluster_import.hpp"
#include "live/slurm/commands.hpp"
#include "traces/clusters/cluster_file.hpp"
#include "traces/files/csv.hpp"
#include "traces/scenario.pb.h"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kPatience{30};

struct ImportClusterOptions {
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
                "expected jobs with GPUs and a time limit in the queue, found none");
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

int import_cluster(const ImportClusterOptions& options) {
  OutputFile file(options.out);
  const auto slurm = live::installed_slurm(kPatience);
  const std::set<std::string> partitions(options.partitions.begin(), options.partitions.end());
  const std::vector<live::SlurmNode> all = live::parse_nodes(slurm->read_nodes());
  const live::NodeMap nodes(live::managed_nodes(all, partitions));
  ClusterFacts facts = live::node_facts(all, nodes);
  add_switches(*slurm, facts);
  for (const std::string& each : options.files) {
    merge_facts(facts, parse_cluster_file(read_packed_text(each), each));
  }
  const Topology cluster = write_cluster(options.choices, facts, options.out, file);
  if (options.queue.empty()) return 0;
  write_queue(options, live::queued_jobs(live::parse_jobs(slurm->read_jobs()), partitions),
              cluster);
  return 0;
}

}  // namespace

void add_import_cluster(CLI::App& command, Action& chosen) {
  const auto options = std::make_shared<ImportClusterOptions>();
  CLI::App* cluster = command.add_subcommand(
      "cluster",
      "the Slurm whose commands are in PATH: its nodes as a cluster, its queue as a "
      "scenario of orrery jobs");
  cluster->add_option("FILE", options->files,
                      "files about a node or the network that complete what Slurm states, as for "
                      "import cluster-file");
  cluster->add_option("--partition", options->partitions, "only this partition (repeatable)")
      ->type_name("NAME");
  cluster
      ->add_option("--gpu", options->choices.gpu,
                   "GPU (orrery list gpus), where Slurm's types name none")
      ->type_name("NAME");
  cluster->add_option("-o,--output", options->out, "cluster to write")
      ->type_name("OUT.yaml")
      ->required();
  cluster
      ->add_option("--queue", options->queue,
                   "also write the jobs that wait or run now: a scenario, and beside it their log")
      ->type_name("QUEUE.yaml");
  add_examples(*cluster, {"orrery import cluster -o cluster.yaml --gpu H100",
                          "orrery import cluster -o cluster.yaml --queue queue.yaml",
                          "orrery jobs queue.yaml --policy fifo,easy,srtf"});
  cluster->callback(
      [options, &chosen] { chosen = [options] { return import_cluster(*options); }; });
}

}  // namespace orrery::cli
