// orrery pack: compares the shares of a cluster of shared GPUs that packing policies can allocate.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/output_file.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "core/files/file_kind.hpp"
#include "sim/packing/packer.hpp"
#include "sim/packing/packing_study.hpp"

namespace orrery::cli {
namespace {

struct PackOptions {
  std::string pods, nodes, out;
  std::vector<std::string> policies = sim::packer_names();
  std::uint32_t seeds = 10;
  std::uint64_t first_seed = 1;
  double demand = 1;
  bool json = false;
};

/// Result of one policy over all seeds: fractions of the cluster's GPUs, and a number of pods.
struct Row {
  std::string policy;
  double mean = 0, least = 1, most = 0, turned_away = 0, fragmented = 0;
};

Row row_of(const std::vector<sim::PackingRun>& runs, double demand) {
  Row row{.policy = runs.front().policy};
  const auto count = static_cast<double>(runs.size());
  for (const sim::PackingRun& run : runs) {
    const double here = run.at(demand);
    row.mean += here / count;
    row.least = std::min(row.least, here);
    row.most = std::max(row.most, here);
    row.turned_away += static_cast<double>(run.turned_away) / count;
    row.fragmented += run.fragmented / count;
  }
  return row;
}

void print_table(const PackOptions& options, const std::vector<Row>& rows, std::size_t pods,
                 const sim::SharedCluster& cluster) {
  fmt::print("{} pods of {}, {} nodes with {} GPUs; {} seeds, until {:.0f}% of the GPUs are "
             "requested\n\n",
             pods, options.pods, cluster.nodes().size(), cluster.gpu_milli() / kWholeGpu,
             options.seeds, 100 * options.demand);
  fmt::print("{:<14}{:>12}{:>10}{:>10}{:>16}{:>14}\n", "packing", "allocated %", "least", "most",
             "turned away", "fragmented %");
  for (const Row& row : rows) {
    fmt::print("{:<14}{:>12.2f}{:>10.2f}{:>10.2f}{:>16.1f}{:>14.2f}\n", row.policy, 100 * row.mean,
               100 * row.least, 100 * row.most, row.turned_away, 100 * row.fragmented);
  }
}

void print_json(const std::vector<Row>& rows) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    all.push_back({{"policy", row.policy},
                   {"allocated", row.mean},
                   {"allocated_least", row.least},
                   {"allocated_most", row.most},
                   {"turned_away", row.turned_away},
                   {"fragmented", row.fragmented}});
  }
  fmt::print("{}\n", all.dump(2));
}

void append_curve(const sim::PackingRun& run, std::string& csv) {
  for (std::size_t percent = 0; percent < run.allocated.size(); ++percent) {
    csv += fmt::format("{},{},{},{:.6g}\n", run.policy, run.seed, percent,
                       100 * run.allocated[percent]);
  }
}

/// Throws a usage error for a number of nodes in place of a file.
void check_nodes(const std::string& nodes) {
  if (nodes.find_first_not_of("0123456789") != std::string::npos || is_file(nodes)) return;
  throw Error(ErrorKind::usage,
              fmt::format("--nodes: expected a file with a row for each node (sn, cpu_milli, "
                          "memory_mib, gpu, model), found the number {}",
                          nodes));
}

int pack_pods(const PackOptions& options) {
  check_nodes(options.nodes);
  const std::vector<Pod> pods = load_pods(options.pods);
  const std::vector<NodeRecord> nodes = load_nodes(options.nodes);
  std::string curve = "policy,seed,demand_percent,allocated_percent\n";
  std::vector<Row> rows;
  for (const std::string& policy : options.policies) {
    std::vector<sim::PackingRun> runs;
    for (std::uint64_t seed = 0; seed < options.seeds; ++seed) {
      runs.push_back(sim::pack(pods, nodes, policy, options.demand, options.first_seed + seed));
      append_curve(runs.back(), curve);
    }
    rows.push_back(row_of(runs, options.demand));
  }
  if (!options.out.empty()) write_file(options.out, curve);
  if (options.json) {
    print_json(rows);
  } else {
    print_table(options, rows, pods.size(), sim::SharedCluster(nodes));
  }
  return 0;
}

}  // namespace

void add_pack(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<PackOptions>();
  CLI::App* command = app.add_subcommand(
      "pack", "compare packings of pods on a cluster of shared GPUs of several kinds");
  command
      ->add_option("PODS", options->pods,
                   "CSV with name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec (.gz too)")
      ->type_name("PODS.csv")
      ->required();
  command->add_option("--nodes", options->nodes, "CSV with sn, cpu_milli, memory_mib, gpu, model")
      ->type_name("NODES.csv")
      ->required();
  one_of(*command->add_option("--policy", options->policies, "packings to compare (default: all)"),
         sim::packer_names())
      .delimiter(',');
  whole_number(*command->add_option("--seeds", options->seeds, "random orders of arrival"), 1, 1000)
      .type_name("N")
      ->capture_default_str();
  command->add_option("--seed", options->first_seed, "seed of the first order")
      ->type_name("N")
      ->capture_default_str();
  number(*command->add_option("--demand", options->demand,
                              "share of the cluster's GPUs that is requested at the end"),
         0.01, 10)
      .type_name("SHARE")
      ->capture_default_str();
  command->add_flag("--json", options->json, "print JSON instead of the table");
  command->add_option("--out", options->out, "write the allocated share at every requested "
                                             "percent")
      ->type_name("CURVE.csv");
  add_examples(*command, {"orrery pack openb_pod_list_default.csv.gz --nodes "
                          "openb_node_list_gpu_node.csv.gz",
                          "orrery pack pods.csv --nodes nodes.csv --policy best-fit,fgd "
                          "--demand 1.3 --out curve.csv"});
  command->callback([options, &chosen] { chosen = [options] { return pack_pods(*options); }; });
}

}  // namespace orrery::cli
