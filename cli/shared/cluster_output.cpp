#include "cli/shared/cluster_output.hpp"

#include <fmt/format.h>

#include "core/schema/yaml_writer.hpp"
#include "topologies/builder.hpp"

namespace orrery::cli {
namespace {

/// Returns comment lines for the head of the written file.
std::string notes_of(const ClusterFacts& facts) {
  std::string text = "# Written by orrery import.\n";
  for (const std::string& each : facts.read) text += fmt::format("# from {}\n", each);
  for (const std::string& each : facts.assumed) text += fmt::format("# assumed: {}\n", each);
  return text;
}

}  // namespace

Topology write_cluster(const ClusterChoices& choices, ClusterFacts& facts, const std::string& out,
                       OutputFile& file) {
  const Topology topology = cluster_of(facts, choices);
  Topology resolved = topology;
  resolve(resolved, SourceMap{}, "cluster");
  const Cluster cluster = build_cluster(resolved, SourceMap{}, "cluster");
  file.write_and_rename(notes_of(facts) + to_yaml_file(topology));
  for (const std::string& each : facts.assumed) fmt::print(stderr, "assumed: {}\n", each);
  for (const std::string& each : facts.ignored) fmt::print(stderr, "ignored: {}\n", each);
  fmt::print("{}: {} nodes, {} {}\n", out, cluster.nodes(), cluster.gpus(),
             cluster.gpu_model().name);
  return topology;
}

}  // namespace orrery::cli
