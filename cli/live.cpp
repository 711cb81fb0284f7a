// orrery live: the same scenario on real processes.
#include <cstdio>
#include <memory>
#include <string>

#include <CLI/Error.hpp>
#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/help.hpp"
#include "cli/live_jobs.hpp"
#include "cli/operator.hpp"
#include "cli/rendezvous.hpp"
#include "cli/run_options.hpp"
#include "cli/usage.hpp"
#include "core/process.hpp"

namespace orrery::cli {
namespace {

struct Options : RunOptions {
  std::uint32_t ranks = 0;  // 0: the scenario's
  std::string from;  // folder
  std::string rendezvous, listen;
  OperatorOptions operation;
};

/// One rank of a run whose controller is another process. Returns its exit code.
int join(const RunRequest& request) {
  ChildProcess agent(sibling_program("orrery-live"), {"join"});
  write_message(agent.channel(), request.SerializeAsString());  // if it is gone, wait() says so
  return agent.wait().code;
}

/// Lets the environment say which rank this is, and how many there are.
void meet(const Options& options, LoadedScenario& loaded, RunRequest& request) {
  *request.mutable_rendezvous() = rendezvous_of_environment(options.rendezvous, options.listen);
  set_ranks(loaded, request.rendezvous().ranks());
}

/// As a shell reads it.
std::string quoted(const std::string& word) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char letter : word) {
    out += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  }
  return out + "'";
}

/// What an operator needs where a run has not done what was asked for: why, and what goes on.
void explain(const Options& options, const Scenario& scenario, const Report& report) {
  fmt::print(stderr, "orrery: the run is unfinished: {}\n", report.unfinished());
  const std::string folder =
      scenario.live().has_checkpoints() ? scenario.live().checkpoints().folder() : options.from;
  if (folder.empty()) {
    fmt::print(stderr, "  nothing goes on from here: it kept no checkpoints (live.checkpoints)\n");
    return;
  }
  std::string command = "orrery live " + quoted(options.file);
  for (const std::string& setting : options.all_overrides()) {
    command += " --set " + quoted(setting);
  }
  fmt::print(stderr, "  to go on from its newest whole checkpoint: {} --from {}\n", command,
             quoted(folder));
}

int live(const Options& options) {
  LoadedScenario loaded = options.load();
  if (options.ranks != 0) set_ranks(loaded, options.ranks);
  RunRequest request;
  if (!options.rendezvous.empty()) meet(options, loaded, request);
  *request.mutable_scenario() = loaded.scenario;
  request.set_record(options.record);
  options.operation.fill(request, false);
  request.set_fabric(request.scenario().live().fabric());
  request.set_resume_from(options.from);
  if (request.rendezvous().rank() != 0) return join(request);
  const auto operated = options.operation.make();
  const Report report = run("orrery-live", request, loaded.places, operated.get());
  const int code = print_report(report, options.json);
  if (!report.has_unfinished()) return code;
  explain(options, request.scenario(), report);
  return was_interrupted() ? interrupted_code() : code;
}

void declare(CLI::App& command, const std::shared_ptr<Options>& options) {
  options->add_file(command);
  whole_number(*command.add_option("--ranks", options->ranks,
                                   "world size; only where the scenario is elastic"),
               1, 131072)
      .type_name("N");
  const auto take_fabric = [options](const std::string& fabric) {
    options->own.push_back("live.fabric=" + fabric);
  };
  one_of(*command.add_option_function<std::string>(
             "--fabric", take_fabric, "data plane; as live.fabric says if this is not given"),
         {"grpc", "nccl"});
  command
      .add_option("--rendezvous", options->rendezvous,
                  "be one rank of a run that srun or a launcher starts; the processes meet here")
      ->type_name("FOLDER");
  command.add_option("--listen", options->listen, "address of this machine, with --rendezvous")
      ->type_name("ADDRESS")
      ->needs("--rendezvous");
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
  add_examples(command, {"orrery live examples/straggler-4-ranks.yaml",
                         "orrery live train.yaml --mode shadow --record train.log",
                         "orrery live train.yaml --mode approve --hook ./ask.sh "
                         "--kill-switch /run/halt",
                         "srun orrery live train.yaml --rendezvous /shared/meet",
                         "orrery live --jobs jobs.csv --nodes 4 --gpus-per-node 8 --policy srtf"});
}

}  // namespace

void add_live(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("live", "run the same scenario on real processes");
  declare(*command, options);
  const auto jobs = add_live_jobs(*command);
  command->get_option("FILE")->required(false)->excludes("--jobs");
  command->callback([options, jobs, &chosen] {
    if (options->file.empty() && jobs->log.empty()) throw CLI::RequiredError("FILE");
    chosen = [options, jobs] {
      return jobs->log.empty() ? live(*options) : live_jobs(*jobs, options->record, options->json);
    };
  });
}

}  // namespace orrery::cli
