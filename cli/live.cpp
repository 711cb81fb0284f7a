// orrery live: the same scenario on real processes.
#include <memory>

#include "cli/commands.hpp"
#include "cli/operator.hpp"
#include "cli/run_options.hpp"

namespace orrery::cli {
namespace {

struct Options : RunOptions {
  std::uint32_t ranks = 0;  // 0: the scenario's
  std::string fabric = "grpc";
  std::string from;  // folder
  OperatorOptions operation;
};

int live(const Options& options) {
  LoadedScenario loaded = options.load();
  if (options.ranks != 0) set_ranks(loaded, options.ranks);
  RunRequest request;
  *request.mutable_scenario() = loaded.scenario;
  request.set_record(options.record);
  options.operation.fill(request, false);
  request.set_fabric(options.fabric);
  request.set_resume_from(options.from);
  const auto operated = options.operation.make();
  return print_report(run("orrery-live", request, loaded.places, operated.get()), options.json);
}

void declare(CLI::App& command, const std::shared_ptr<Options>& options) {
  options->add_file(command);
  command.add_option("--ranks", options->ranks, "world size; only where the scenario is elastic")
      ->type_name("N")
      ->check(CLI::Range(1u, 131072u));
  command.add_option("--fabric", options->fabric, "data plane")
      ->type_name("grpc|nccl")
      ->check(CLI::IsMember({"grpc", "nccl"}));
  options->operation.add(command, "static");
  command
      .add_option("--from", options->from, "go on from the newest whole checkpoint in this folder")
      ->type_name("FOLDER");
  const auto take_text = [options](const std::string& path) {
    options->own.push_back("live.text=" + path);
  };
  command.add_option_function<std::string>("--text", take_text, "file or folder to train on")
      ->type_name("PATH");
  options->add_json(command);
  options->add_seed(command);
  options->add_record(command);
  options->add_overrides(command);
}

}  // namespace

void add_live(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("live", "run the same scenario on real processes");
  declare(*command, options);
  command->callback([options, &chosen] { chosen = [options] { return live(*options); }; });
}

}  // namespace orrery::cli
