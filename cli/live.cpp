// orrery live: the same scenario on real processes.
#include <cstdio>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <CLI/Error.hpp>

#include "cli/commands.hpp"
#include "cli/help.hpp"
#include "cli/live_jobs.hpp"
#include "cli/operator.hpp"
#include "cli/rendezvous.hpp"
#include "cli/run_options.hpp"
#include "cli/usage.hpp"
#include "core/process.hpp"
#include "live/run/files/run_files.hpp"

namespace orrery::cli {
namespace {

constexpr std::uint32_t kRestartsOfLostState = 3;  // an hour

struct LiveOptions : RunOptions {
  std::uint32_t ranks = 0;  // 0: the scenario's
  std::string from;         // folder
  std::string rendezvous, listen;
  std::uint32_t restarts = 0;  // an hour
  OperatorOptions operation;
};

/// One rank of a run whose controller is another process. Returns its exit code.
int join(const RunRequest& request) {
  ChildProcess agent(sibling_program("orrery-live"), {"join"});
  write_message(agent.channel(), request.SerializeAsString());  // if it is gone, wait() says so
  return agent.wait().code;
}

/// Lets the environment say which rank this is, and how many there are.
void meet(const LiveOptions& options, LoadedScenario& loaded, RunRequest& request) {
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
void explain(const LiveOptions& options, const Scenario& scenario, const Report& report) {
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

/// Attempts that may still be made, so many within an hour.
class Restarts {
 public:
  explicit Restarts(std::uint32_t per_hour) : per_hour_(per_hour) {}
  bool take() {
    HostUse use;
    meter_.fill(use);
    while (!taken_.empty() && taken_.front() < use.wall_s() - 3600) taken_.pop_front();
    if (taken_.size() >= per_hour_) return false;
    taken_.push_back(use.wall_s());
    return true;
  }

 private:
  const std::uint32_t per_hour_;
  const HostMeter meter_;
  std::deque<double> taken_;
};

/// Whether somebody has ended the run on purpose.
bool was_stopped(const Report& report) {
  return was_interrupted() ||
         report.unfinished().find(orrery::live::kStoppedByOperator) != std::string::npos;
}

/// Whether ranks were lost together with those that kept their copies: the newest checkpoint is
/// what is left, and nobody has to decide that.
bool has_lost_state(const Report& report) {
  return report.unfinished().find(orrery::live::kStateGone) != std::string::npos;
}

/// A folder that holds a checkpoint: which of them is whole the run finds out.
bool holds_checkpoint(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code failure;
  for (fs::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure)) {
    if (at->path().filename().string().ends_with("manifest")) return true;
  }
  return false;
}

/// Nothing that another attempt would find as it was: the machine, a process, whoever was lost.
bool may_pass(const Error& error) {
  return error.kind() == ErrorKind::environment || error.kind() == ErrorKind::internal;
}

/// One run after the other, each from the newest checkpoint of those before it, until one is done.
Report run_again(const LiveOptions& options, RunRequest& request, const SourceMap& places,
                 Operator* operated) {
  Restarts restarts(options.restarts), of_lost_state(kRestartsOfLostState);
  const auto keeps = [&request] {
    return request.scenario().live().has_checkpoints() &&
           holds_checkpoint(request.scenario().live().checkpoints().folder());
  };
  while (true) {
    std::string why;
    try {
      Report report = run("orrery-live", request, places, operated);
      if (!report.has_unfinished() || was_stopped(report)) return report;
      const bool of_itself = has_lost_state(report) && keeps() && of_lost_state.take();
      if (!of_itself && !restarts.take()) return report;
      why = report.unfinished();
    } catch (const Interrupted&) {
      throw;
    } catch (const Error& error) {
      if (!may_pass(error) || was_interrupted() || !restarts.take()) throw;
      why = error.message();
    }
    const std::string& folder = request.scenario().live().checkpoints().folder();
    const bool saved = keeps();
    if (saved) request.set_resume_from(folder);
    fmt::print(stderr, "orrery: the run is unfinished: {}\n  it goes on by itself from {}\n", why,
               saved ? "the newest whole checkpoint in " + quoted(folder) : "its beginning");
  }
}

int live(const LiveOptions& options) {
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
  const Report report = run_again(options, request, loaded.places, operated.get());
  const int code = print_report(report, options.json);
  if (!report.has_unfinished()) return code;
  explain(options, request.scenario(), report);
  return was_interrupted() ? interrupted_code() : code;
}

void declare(CLI::App& command, const std::shared_ptr<LiveOptions>& options) {
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
  whole_number(*command.add_option("--restart", options->restarts,
                                   "go on from the newest checkpoint where a run ends early, so "
                                   "often within an hour"),
               1, 1000)
      .type_name("N");
  command.add_flag("--attended", options->operation.attended,
                   "approve: `orrery attach` answers, no terminal is asked");
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
  const auto options = std::make_shared<LiveOptions>();
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
