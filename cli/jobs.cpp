// orrery jobs: a production job trace, replayed job by job. It needs no engine, so it runs here.
#include <algorithm>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/help.hpp"
#include "cli/usage.hpp"
#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "policies/run/registry.hpp"
#include "policies/run/worker.hpp"
#include "sim/job_replay.hpp"
#include "topologies/builder.hpp"
#include "traces/job_trace.hpp"
#include "traces/report.hpp"

namespace orrery::cli {
namespace {

struct Options {
  std::string file, cluster, policy, placement, record;
  std::uint32_t nodes = 0, gpus_per_node = 0;
  bool json = false;
};

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

void take_cluster(JobReplay& replay, const std::string& file) {
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

JobReplay asked_for(const Options& options) {
  JobReplay replay = described(options.file);
  if (!options.cluster.empty()) take_cluster(replay, options.cluster);
  if (options.nodes != 0) replay.set_nodes(options.nodes);
  if (options.gpus_per_node != 0) replay.set_gpus_per_node(options.gpus_per_node);
  if (!options.policy.empty()) take_policy(replay, options.policy);
  if (!options.placement.empty()) replay.set_placement(options.placement);
  if (replay.nodes() == 0 || replay.gpus_per_node() == 0) {
    throw usage("a trace needs a cluster: --nodes N --gpus-per-node G, or --cluster C.yaml");
  }
  if (replay.policy().empty()) throw usage("a trace needs a policy: --policy fifo, or another");
  return replay;
}

void print_table(const JobReplay& replay, const JobsReport& report) {
  fmt::print("{:<16}{}\n", "trace", replay.trace());
  fmt::print("{:<16}{} nodes x {} GPUs, {}, {} placement\n", "cluster", replay.nodes(),
             replay.gpus_per_node(), replay.policy(), replay.placement());
  fmt::print("{:<16}{} in, {} out, {} preemptions\n", "jobs", report.jobs_in(), report.jobs_out(),
             report.preemptions());
  if (!report.has_jct_mean_s()) {
    fmt::print("{:<16}not known: no job ended\n", "completion");
    return;
  }
  fmt::print("{:<16}mean {:.1f} s, median {:.1f} s, p99 {:.1f} s\n", "completion",
             report.jct_mean_s(), report.jct_p50_s(), report.jct_p99_s());
  fmt::print("{:<16}mean {:.1f} s\n", "in the queue", report.queue_mean_s());
  fmt::print("{:<16}{:.0f} s\n", "makespan", report.makespan_s());
  const std::string busy = report.has_utilization()
                               ? fmt::format("{:.2f}%", 100 * report.utilization())
                               : "not known";
  fmt::print("{:<16}{}\n", "utilization", busy);
}

int jobs(const Options& options) {
  const HostMeter meter;
  const JobReplay replay = asked_for(options);
  JobsReport report = replay_jobs(load_job_trace(replay.trace()), replay, options.record);
  meter.fill(*report.mutable_host());
  if (options.json) {
    fmt::print("{}\n", report_json(report));
  } else {
    print_table(replay, report);
  }
  if (report.jobs_out() == report.jobs_in()) return 0;
  fmt::print(stderr, "goal missed: {} of {} jobs never ran under {}\n",
             report.jobs_in() - report.jobs_out(), report.jobs_in(), replay.policy());
  return static_cast<int>(ErrorKind::goal_missed);
}

void declare(CLI::App& command, const std::shared_ptr<Options>& options) {
  command.add_option("FILE", options->file, "job trace (CSV, .gz too), or a YAML file naming one")
      ->type_name("TRACE|FILE.yaml")
      ->required();
  whole_number(*command.add_option("--nodes", options->nodes, "nodes of the cluster"), 1, 131072)
      .type_name("N");
  whole_number(*command.add_option("--gpus-per-node", options->gpus_per_node, "GPUs of each"), 1,
               128)
      .type_name("G");
  command.add_option("--cluster", options->cluster, "cluster description instead of the two")
      ->type_name("C.yaml");
  command.add_option("--policy", options->policy, "order of the queue: fifo, sjf")->type_name("P");
  one_of(*command.add_option("--placement", options->placement,
                             "which GPUs a job gets: any that are free, or those of as few nodes "
                             "as possible"),
         {"count", "consolidated"});
  command.add_flag("--json", options->json, "print one JSON object instead of the table");
  command.add_option("--record", options->record, "write the observation and decision log")
      ->type_name("LOG");
  add_examples(command, {"orrery jobs trace.csv --nodes 16 --gpus-per-node 8 --policy fifo",
                         "orrery jobs trace.csv.gz --cluster cluster.yaml --policy sjf "
                         "--placement consolidated"});
}

}  // namespace

void add_jobs(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("jobs", "replay a production job trace");
  declare(*command, options);
  command->callback([options, &chosen] { chosen = [options] { return jobs(*options); }; });
}

}  // namespace orrery::cli
