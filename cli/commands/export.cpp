// orrery export: writes the steps of a job in the formats of other tools.
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/run_options.hpp"
#include "core/error.hpp"
#include "policies/seam/world.hpp"
#include "sim/estimates/step/chakra_export.hpp"
#include "topologies/builder.hpp"

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

}  // namespace

void add_export(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("export", "write a scenario in another tool's format");
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
}

}  // namespace orrery::cli
