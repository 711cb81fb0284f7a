// orrery import: checks files of other tools and writes scenarios or job logs from them.
#include <filesystem>
#include <memory>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/cluster_output.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/output_file.hpp"
#include "cli/shared/usage.hpp"
#include "core/schema/json.hpp"
#include "core/schema/yaml_writer.hpp"
#include "topologies/builder.hpp"
#include "traces/chakra/chakra_reader.hpp"
#include "traces/clusters/cluster_file.hpp"
#include "traces/files/csv.hpp"
#include "traces/jobs/job_log.hpp"
#include "traces/models/model_file.hpp"
#include "traces/scenario.pb.h"

namespace orrery::cli {
namespace {

struct ImportOptions {
  ChakraInput input;
  std::string out, preset = "dgx-h100";
};

struct JobOptions {
  std::string file, out;
  JobLogOptions log;
  bool anonymize = false, json = false;
};

/// Returns a scenario that runs the trace. It names the preset of the nodes; the preset's values
/// stay in the catalogue.
Scenario scenario_of(const ImportOptions& options, const ChakraTrace& trace) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::absolute(options.out).parent_path();
  const auto beside = [&](const std::string& file) {
    return fs::absolute(file).lexically_proximate(folder).string();
  };
  Topology node;
  node.set_preset(options.preset);
  resolve(node, SourceMap{}, "--preset");
  const std::size_t per_node = node.node().gpus_per_node();
  Scenario scenario;
  scenario.set_name(fs::path(options.out).stem().string());
  scenario.set_description(
      fmt::format("Imported Chakra execution trace, {} ranks", trace.ranks.size()));
  Topology& cluster = *scenario.mutable_cluster();
  cluster.set_preset(options.preset);
  cluster.set_nodes(static_cast<std::uint32_t>((trace.ranks.size() + per_node - 1) / per_node));
  scenario.mutable_trace()->set_chakra(beside(options.input.path));
  if (!options.input.groups.empty()) {
    scenario.mutable_trace()->set_groups(beside(options.input.groups));
  }
  if (options.input.ranks > 0) scenario.mutable_trace()->set_ranks(options.input.ranks);
  scenario.mutable_run()->set_steps(1);
  return scenario;
}

int import_chakra(const ImportOptions& options) {
  OutputFile file(options.out);
  const ChakraTrace trace = read_chakra(options.input);
  for (const std::string& warning : trace.warnings) fmt::print(stderr, "warning: {}\n", warning);
  file.write_and_rename("# Written by orrery import; file names are relative to this file.\n" +
                        to_yaml_file(scenario_of(options, trace)));
  fmt::print("{}: {} ranks with {} different programs, {} nodes, {} communicators\n", options.out,
             trace.ranks.size(), trace.programs.size(), trace.nodes, trace.groups.size());
  return 0;
}

/// Prints the numbers of rows and jobs, and of the rows left out.
void tell_quality(const TraceQuality& quality) {
  fmt::print(stderr, "{}: {} rows = {} jobs + {} passed over + {} rejected\n", quality.format(),
             quality.rows(), quality.jobs(), quality.passed_over(), quality.rejected());
  for (const std::string& note : quality.notes()) fmt::print(stderr, "note: {}\n", note);
  for (const RejectedRow& row : quality.first_rejected()) {
    fmt::print(stderr, "rejected: line {}, {}: {}\n", row.line(), row.job_id(), row.reason());
  }
  const auto shown = static_cast<std::uint64_t>(quality.first_rejected_size());
  if (quality.rejected() > shown) {
    fmt::print(stderr, "rejected: {} more\n", quality.rejected() - shown);
  }
}

int import_jobs(const JobOptions& options) {
  OutputFile file(options.out);
  JobLog log = load_job_log(options.file, options.log);
  if (options.anonymize) anonymize(log.jobs);
  file.write_and_rename(job_trace_csv(log.jobs));
  if (options.json) {
    fmt::print("{}\n", to_json(log.quality).dump(2));
  } else {
    tell_quality(log.quality);
  }
  return 0;
}

struct ClusterOptions {
  std::vector<std::string> files;
  std::string out;
  ClusterChoices choices;
};

/// Adds the facts of the cluster files.
void merge_files(ClusterFacts& facts, const std::vector<std::string>& files) {
  for (const std::string& each : files) {
    merge_facts(facts, parse_cluster_file(read_packed_text(each), each));
  }
}

int import_cluster_file(const ClusterOptions& options) {
  OutputFile file(options.out);
  ClusterFacts facts;
  merge_files(facts, options.files);
  write_cluster(options.choices, facts, options.out, file);
  return 0;
}

void add_import_cluster_file(CLI::App& command, Action& chosen) {
  const auto options = std::make_shared<ClusterOptions>();
  CLI::App* cluster = command.add_subcommand(
      "cluster-file", "another tool's description of a node or a network, written as a cluster");
  cluster
      ->add_option("FILE", options->files,
                   fmt::format("files of one cluster that complete each other; formats, found "
                               "by content: {}",
                               fmt::join(all_names<ClusterFormat>(), ", ")))
      ->required();
  cluster->add_option("--gpu", options->choices.gpu, "GPU (orrery list gpus)")->type_name("NAME");
  whole_number(*cluster->add_option("--nodes", options->choices.nodes, "number of nodes"), 1,
               131072)
      .type_name("N");
  cluster->add_option("-o,--output", options->out, "cluster to write")
      ->type_name("OUT.yaml")
      ->required();
  add_examples(*cluster, {"orrery import cluster-file nccl.xml topology.conf -o cluster.yaml",
                          "orrery describe cluster.yaml"});
  cluster->callback(
      [options, &chosen] { chosen = [options] { return import_cluster_file(*options); }; });
}

struct ModelOptions {
  std::string file, out;
};

/// Writes the key `model` of a job.
int import_model(const ModelOptions& options) {
  OutputFile file(options.out);
  const ModelFile model = read_model_file(options.file);
  std::string text =
      fmt::format("# Written by orrery import model from a {}: the key `model` of a job.\n",
                  name_of(model.format));
  for (const std::string& each : model.decoder.assumed) {
    text += fmt::format("# assumed: {}\n", each);
  }
  text += "model:\n";
  std::istringstream lines(to_yaml(model.decoder.model));
  for (std::string line; std::getline(lines, line);) text += fmt::format("  {}\n", line);
  file.write_and_rename(text);
  for (const std::string& each : model.decoder.assumed) fmt::print(stderr, "assumed: {}\n", each);
  fmt::print("{}: {} of {} layers\n", options.out, model.decoder.family,
             model.decoder.model.layers());
  return 0;
}

void add_import_model(CLI::App& command, Action& chosen) {
  const auto options = std::make_shared<ModelOptions>();
  CLI::App* model = command.add_subcommand(
      "model", "a model file of another tool, written as the key `model` of a job");
  model
      ->add_option(
          "FILE", options->file,
          fmt::format("formats, found by content: {}", fmt::join(all_names<ModelFormat>(), ", ")))
      ->required();
  model->add_option("-o,--output", options->out, "YAML to write")
      ->type_name("OUT.yaml")
      ->required();
  add_examples(*model, {"orrery import model config.json -o model.yaml"});
  model->callback([options, &chosen] { chosen = [options] { return import_model(*options); }; });
}

void add_import_jobs(CLI::App& command, Action& chosen) {
  const auto options = std::make_shared<JobOptions>();
  CLI::App* jobs =
      command.add_subcommand("jobs", "a job log of another tool, written as CSV for orrery jobs");
  jobs->add_option("FILE", options->file,
                   fmt::format("job log, .gz too; formats, found by content: {}",
                               fmt::join(job_log_formats(), ", ")))
      ->required();
  jobs->add_option("-o,--output", options->out, "CSV to write")->type_name("OUT.csv")->required();
  jobs->add_flag("--strict", options->log.strict, "refuse broken rows instead of counting them");
  jobs->add_flag("--anonymize", options->anonymize,
                 "replace the names of users, virtual clusters, jobs, QOS and ids by numbers");
  jobs->add_option("--throughputs", options->log.throughputs,
                   "steps per second of Gavel's jobs (simulation_throughputs.json)")
      ->type_name("FILE");
  jobs->add_option("--gpu", options->log.gpu, "GPU whose throughputs are used")
      ->type_name("NAME")
      ->capture_default_str();
  jobs->add_option("--gpu-kind", options->log.gpu_kind,
                   "only jobs that may have this kind of GPU, as the log names it")
      ->type_name("KIND");
  jobs->add_option("--columns", options->log.columns,
                   "columns of a log of sacct without a header, between commas")
      ->type_name("NAMES");
  whole_number(*jobs->add_option("--gpus-per-node", options->log.gpus_per_node,
                                 "GPUs of each node, for a log of sacct that names nodes only"),
               1, 128)
      .type_name("G");
  jobs->add_flag("--json", options->json, "print the report on the rows as one JSON object");
  add_examples(*jobs, {"sacct -aPX -S 2024-01-01 -o JobID,JobName,User,Partition,Submit,Start,End,"
                       "AllocTRES,NNodes,TimelimitRaw > sacct.txt",
                       "orrery import jobs sacct.txt -o jobs.csv --anonymize"});
  jobs->callback([options, &chosen] { chosen = [options] { return import_jobs(*options); }; });
}

}  // namespace

void add_import(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand(
      "import", "check another tool's files, write a scenario, a cluster or a job trace");
  command->require_subcommand(1);
  const auto options = std::make_shared<ImportOptions>();
  CLI::App* chakra = command->add_subcommand("chakra", "a Chakra execution trace");
  chakra->add_option("PATH", options->input.path, "PREFIX of PREFIX.0.et ..., or a tar archive")
      ->required();
  chakra->add_option("--groups", options->input.groups, "communicators, if not PREFIX.json")
      ->type_name("FILE");
  whole_number(*chakra->add_option("--ranks", options->input.ranks,
                                   "number of ranks that run a single file"),
               1, 131072)
      .type_name("N");
  chakra->add_option("--preset", options->preset, "cluster preset of the ranks' nodes")
      ->type_name("NAME")
      ->capture_default_str();
  chakra->add_option("-o,--output", options->out, "scenario to write")
      ->type_name("OUT.yaml")
      ->required();
  add_examples(*chakra, {"orrery import chakra traces/gpt -o gpt.yaml --preset dgx-h200",
                         "orrery simulate gpt.yaml"});
  chakra->callback([options, &chosen] { chosen = [options] { return import_chakra(*options); }; });
  add_import_jobs(*command, chosen);
  add_import_cluster_file(*command, chosen);
  add_import_cluster(*command, chosen);
  add_import_model(*command, chosen);
  add_import_pytorch(*command, chosen);
}

}  // namespace orrery::cli
