// orrery export: writes the steps of a job, clusters and job logs in the formats of other tools.
#include <algorithm>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/output_file.hpp"
#include "cli/shared/run_options.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "policies/seam/world.hpp"
#include "sim/estimates/step/chakra_export.hpp"
#include "topologies/builder.hpp"
#include "traces/clusters/cluster_writers.hpp"
#include "traces/jobs/batsim_workload.hpp"
#include "traces/jobs/job_log.hpp"
#include "traces/scenario/layout_question.hpp"

namespace orrery::cli {
namespace {

struct ExportOptions : RunOptions {
  std::string out;
};

int export_step(const ExportOptions& options) {
  const LoadedScenario loaded = options.load();
  if (!loaded.scenario.has_job()) {
    throw problem_at(loaded.places, loaded.scenario.has_trace() ? "trace" : "collective",
                     "only the steps of a job can be exported");
  }
  const Cluster cluster = build_cluster(loaded.scenario.cluster(), loaded.places, "cluster");
  StepGraph graph(loaded.scenario.job());
  estimates::ChakraExport from(graph, cluster, even_split(graph.micro_batches(), graph.data()));
  const std::filesystem::path folder = std::filesystem::path(options.out).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  estimates::export_chakra(from, options.out);
  fmt::print("{0}.0.et to {0}.{1}.et, {0}.json: one step of {2} ranks\n", options.out,
             from.ranks() - 1, from.ranks());
  return 0;
}

struct ExportClusterOptions {
  std::string cluster, format, out;
  std::uint32_t nodes = 0;
};

int export_cluster(const ExportClusterOptions& options) {
  OutputFile file(options.out);
  Topology topology = asked_cluster(options.cluster);
  if (options.nodes > 0) topology.set_nodes(options.nodes);
  if (topology.nodes() == 0) {
    throw Error(ErrorKind::usage,
                "expected --nodes N beside a preset, which has no number of nodes");
  }
  resolve(topology, {});
  build_cluster(topology, {});
  const WrittenCluster written = write_cluster_file(topology, named<WrittenFormat>(options.format));
  file.write_and_rename(written.text);
  for (const std::string& each : written.changed) fmt::print(stderr, "left out: {}\n", each);
  fmt::print("{}: {} nodes as {}\n", options.out, topology.nodes(), options.format);
  return 0;
}

void add_export_cluster(CLI::App& command, Action& chosen) {
  const auto options = std::make_shared<ExportClusterOptions>();
  CLI::App* cluster = command.add_subcommand("cluster", "a cluster, for NCCL, Slurm or SimGrid");
  cluster
      ->add_option("CLUSTER", options->cluster,
                   "preset (orrery list clusters), or cluster file (YAML)")
      ->required();
  whole_number(*cluster->add_option("--nodes", options->nodes, "number of nodes"), 1, 131072)
      .type_name("N");
  one_of(*cluster->add_option("--format", options->format, "format of the other tool"),
         all_names<WrittenFormat>())
      .required();
  cluster->add_option("-o,--output", options->out, "file to write")->type_name("FILE")->required();
  add_examples(*cluster,
               {"orrery export cluster cluster.yaml --format nccl -o nccl.xml",
                "orrery export cluster dgx-h100 --nodes 64 --format simgrid -o platform.xml"});
  cluster->callback(
      [options, &chosen] { chosen = [options] { return export_cluster(*options); }; });
}

struct ExportBatsimOptions {
  std::string file, out;
  std::uint32_t gpus = 0;
};

int export_batsim(const ExportBatsimOptions& options) {
  OutputFile file(options.out);
  const JobLog log = load_job_log(options.file);
  std::uint32_t most = 0;
  for (const TraceJob& job : log.jobs) most = std::max(most, job.gpus);
  if (options.gpus > 0 && options.gpus < most) {
    throw Error(ErrorKind::usage,
                fmt::format("--gpus {}: expected at least the GPUs of the largest job, found a job "
                            "of {}; Batsim refuses such a workload",
                            options.gpus, most));
  }
  const std::uint32_t gpus = options.gpus > 0 ? options.gpus : most;
  const BatsimWorkload workload = write_batsim_workload(log.jobs, gpus);
  file.write_and_rename(workload.text);
  for (const std::string& each : workload.left_out) fmt::print(stderr, "left out: {}\n", each);
  fmt::print("{}: {} jobs for {} resources\n", options.out, log.jobs.size(), gpus);
  return 0;
}

void add_export_batsim(CLI::App& command, Action& chosen) {
  const auto options = std::make_shared<ExportBatsimOptions>();
  CLI::App* batsim = command.add_subcommand("batsim", "a job log, as a workload of Batsim");
  batsim
      ->add_option("LOG", options->file,
                   "job log, .gz too, in any format of orrery import jobs (Gavel: import it first)")
      ->required();
  whole_number(*batsim->add_option("--gpus", options->gpus,
                                   "GPUs of the machine, nb_res (default: those of the largest "
                                   "job)"),
               1, 1 << 20)
      .type_name("N");
  batsim->add_option("-o,--output", options->out, "workload to write")
      ->type_name("OUT.json")
      ->required();
  add_examples(*batsim, {"orrery export batsim trace.csv --gpus 128 -o workload.json",
                         "orrery jobs workload.json --nodes 16 --gpus-per-node 8 --policy easy"});
  batsim->callback([options, &chosen] { chosen = [options] { return export_batsim(*options); }; });
}

}  // namespace

void add_export(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand(
      "export", "write a scenario, a cluster or a job log in another tool's format");
  command->require_subcommand(1);
  const auto options = std::make_shared<ExportOptions>();
  CLI::App* chakra = command->add_subcommand("chakra", "one step, as a Chakra execution trace");
  options->add_file(*chakra);
  chakra->add_option("-o,--output", options->out, "PREFIX of PREFIX.0.et ... and PREFIX.json")
      ->type_name("PREFIX")
      ->required();
  options->add_overrides(*chakra);
  add_examples(*chakra, {"orrery export chakra train.yaml -o traces/train"});
  chakra->callback([options, &chosen] { chosen = [options] { return export_step(*options); }; });
  add_export_cluster(*command, chosen);
  add_export_batsim(*command, chosen);
}

}  // namespace orrery::cli
