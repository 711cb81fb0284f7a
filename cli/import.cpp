// orrery import: other tools' files, checked and made into scenarios.
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/help.hpp"
#include "cli/output_file.hpp"
#include "cli/usage.hpp"
#include "core/schema/yaml_writer.hpp"
#include "topologies/builder.hpp"
#include "traces/chakra_reader.hpp"
#include "traces/scenario.pb.h"

namespace orrery::cli {
namespace {

struct Options {
  ChakraInput input;
  std::string out, preset = "dgx-h100";
};

/// As it is written: the preset's own values stay in the catalogue.
Scenario scenario_of(const Options& options, const ChakraTrace& trace) {
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

int import_chakra(const Options& options) {
  OutputFile file(options.out);
  const ChakraTrace trace = read_chakra(options.input);
  for (const std::string& warning : trace.warnings) fmt::print(stderr, "warning: {}\n", warning);
  file.finish("# Written by orrery import; file names are relative to this file.\n" +
              to_yaml(scenario_of(options, trace)));
  fmt::print("{}: {} ranks with {} different programs, {} nodes, {} communicators\n", options.out,
             trace.ranks.size(), trace.programs.size(), trace.nodes, trace.groups.size());
  return 0;
}

}  // namespace

void add_import(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("import", "check another tool's files, write a scenario");
  command->require_subcommand(1);
  const auto options = std::make_shared<Options>();
  CLI::App* chakra = command->add_subcommand("chakra", "a Chakra execution trace");
  chakra->add_option("PATH", options->input.path, "PREFIX of PREFIX.0.et ..., or a tar archive")
      ->required();
  chakra->add_option("--groups", options->input.groups, "communicators, if not PREFIX.json")
      ->type_name("FILE");
  whole_number(*chakra->add_option("--ranks", options->input.ranks,
                                   "ranks that run the one file there is"),
               1, 131072)
      .type_name("N");
  chakra->add_option("--preset", options->preset, "cluster preset whose nodes the ranks stand on")
      ->type_name("NAME")
      ->capture_default_str();
  chakra->add_option("-o,--output", options->out, "scenario to write")
      ->type_name("OUT.yaml")
      ->required();
  add_examples(*chakra, {"orrery import chakra traces/gpt -o gpt.yaml --preset dgx-h200",
                         "orrery simulate gpt.yaml"});
  chakra->callback([options, &chosen] { chosen = [options] { return import_chakra(*options); }; });
}

}  // namespace orrery::cli
