// orrery live: runs a scenario on real processes.
#include <cstdio>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/Error.hpp>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/live_jobs.hpp"
#include "cli/shared/operator.hpp"
#include "cli/shared/policy_option.hpp"
#include "cli/shared/rendezvous.hpp"
#include "cli/shared/run_options.hpp"
#include "cli/shared/usage.hpp"
#include "core/process.hpp"
#include "live/control/protocol.hpp"
#include "live/run/files/run_files.hpp"
#include "traces/scenario/live_fabric.hpp"

namespace orrery::cli {
namespace {

constexpr std::uint32_t kRestartsOfLostState = 3;  // limit within an hour
constexpr std::uint32_t kJoinsInVain = 3;
constexpr double kShortJoin_s = 5;
constexpr int kShortOfRanks = 6;  // exit code of a complete run that lacks ranks at its end

struct LiveOptions : RunOptions {
  std::uint32_t ranks = 0;  // world size; 0: as the scenario says
  std::string from;         // folder of checkpoints, or empty
  std::string rendezvous, listen;
  std::vector<std::string> policies;  // values of --policy
  std::uint32_t restarts = 0;         // limit within an hour
  OperatorOptions operation;
};

/// Runs one process of a rank whose controller is another process. Returns its exit code.
int run_joined_process(const RunRequest& request, bool again) {
  std::vector<std::string> words{"join"};
  if (again) words.emplace_back("again");
  ChildProcess agent(sibling_program("orrery-live"), words);
  write_message(agent.channel(), request.SerializeAsString());  // wait() reports a lost agent
  return agent.wait().code;
}

/// Runs one rank of a run whose controller is another process, with a new process whenever the
/// last one counts as lost, or the run has lost its state or its controller. Gives up after three
/// processes that lasted less than 5 s. Returns the rank's exit code.
int join(const RunRequest& request) {
  const std::uint32_t rank = request.rendezvous().rank();
  const HostMeter meter;
  HostUse use;
  int code = run_joined_process(request, false);
  for (std::uint32_t in_vain = 0; code == live::kJoinAgain && in_vain < kJoinsInVain;) {
    fmt::print(stderr,
               "orrery: rank {} counts as lost, or its run has lost its state or its "
               "controller: a new process joins the run\n",
               rank);
    meter.fill(use);
    const double begin = use.wall_s();
    code = run_joined_process(request, true);
    meter.fill(use);
    in_vain = use.wall_s() - begin < kShortJoin_s ? in_vain + 1 : 0;
  }
  if (code != live::kJoinAgain) return code;
  fmt::print(stderr,
             "error: expected the run to take rank {} in again, found {} processes turned "
             "away; start this command again if the run needs the rank\n",
             rank, kJoinsInVain);
  return static_cast<int>(ErrorKind::environment);
}

/// Sets the rank and the number of ranks from the environment.
void meet(const LiveOptions& options, LoadedScenario& loaded, RunRequest& request) {
  *request.mutable_rendezvous() = rendezvous_of_environment(options.rendezvous, options.listen);
  set_ranks(loaded, request.rendezvous().ranks());
}

/// Returns a word quoted for a shell.
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

/// Prints the reason why a run did not succeed, and the commands that continue it.
void explain(const LiveOptions& options, const Scenario& scenario, const Report& report) {
  fmt::print(stderr, "orrery: the run is unfinished: {}\n", report.unfinished());
  const std::string folder =
      scenario.has_checkpoints() ? scenario.checkpoints().folder() : options.from;
  if (folder.empty()) {
    fmt::print(stderr,
               "  the run cannot be continued: it kept no checkpoints (set checkpoints.folder)\n");
    return;
  }
  std::string command = "orrery live " + quoted(options.file);
  for (const std::string& policy : options.policies) command += " --policy " + quoted(policy);
  for (const std::string& setting : options.all_overrides()) {
    command += " --set " + quoted(setting);
  }
  fmt::print(stderr, "  to continue from its newest complete checkpoint: {} --from {}\n", command,
             quoted(folder));
}

/// Limit of restarts within an hour.
class Restarts {
 public:
  explicit Restarts(std::uint32_t per_hour) : per_hour_(per_hour) {}
  /// Counts a restart and returns true, if the limit allows the restart now.
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

/// Returns true if an interrupt or an operator ended the run on purpose.
bool was_stopped(const Report& report) {
  return was_interrupted() ||
         report.unfinished().find(orrery::live::kStoppedByOperator) != std::string::npos;
}

/// Returns true if ranks were lost together with the holders of their copies: only the newest
/// checkpoint is left, so no decision is needed.
bool has_lost_state(const Report& report) {
  return report.unfinished().find(orrery::live::kStateGone) != std::string::npos;
}

/// Returns true if the folder has a manifest of a checkpoint. The run itself finds out which
/// checkpoints are complete.
bool holds_checkpoint(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code failure;
  for (fs::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure)) {
    if (at->path().filename().string().ends_with("manifest")) return true;
  }
  return false;
}

/// Returns true if another attempt may succeed: the machine or a process failed, not the input.
bool may_pass(const Error& error) {
  return error.kind() == ErrorKind::environment || error.kind() == ErrorKind::internal;
}

/// Runs the request, and again from the newest checkpoint after each early end, until a run is
/// complete or the limit of restarts is reached. Returns the last report.
Report run_again(const LiveOptions& options, RunRequest& request, const SourceMap& places,
                 Operator* operated, Policy* policy) {
  Restarts restarts(options.restarts), of_lost_state(kRestartsOfLostState);
  const auto keeps = [&request] {
    return request.scenario().has_checkpoints() &&
           holds_checkpoint(request.scenario().checkpoints().folder());
  };
  while (true) {
    std::string why;
    try {
      Report report = run(Worker::live, request, places, operated, nullptr, policy);
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
    const std::string& folder = request.scenario().checkpoints().folder();
    const bool saved = keeps();
    if (saved) request.set_resume_from(folder);
    fmt::print(stderr, "orrery: the run is unfinished: {}\n  it continues by itself from {}\n", why,
               saved ? "the newest complete checkpoint in " + quoted(folder) : "its beginning");
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
  const auto operated = options.operation.make_operator(false);
  const auto policy = choose_policies(options.policies, request);
  const Report report = run_again(options, request, loaded.places, operated.get(), policy.get());
  const int code = print_report(report, options.json);
  if (!report.has_unfinished()) {
    return code == 0 && report.ranks_missing() > 0 ? kShortOfRanks : code;
  }
  explain(options, request.scenario(), report);
  return was_interrupted() ? interrupted_code() : code;
}

void declare(CLI::App& command, const std::shared_ptr<LiveOptions>& options) {
  options->add_file(command);
  whole_number(*command.add_option("--ranks", options->ranks,
                                   "world size; only for a scenario with elastic: true"),
               1, 131072)
      .type_name("N");
  const auto take_fabric = [options](const std::string& fabric) {
    options->own.push_back("live.fabric=" + fabric);
  };
  one_of(*command.add_option_function<std::string>(
             "--fabric", take_fabric, "data plane (default: live.fabric of the scenario)"),
         all_names<LiveFabric>());
  command
      .add_option("--rendezvous", options->rendezvous,
                  "folder where the processes of a run meet that srun or a launcher starts; this "
                  "process is one rank")
      ->type_name("FOLDER");
  command.add_option("--listen", options->listen, "address of this machine, with --rendezvous")
      ->type_name("ADDRESS")
      ->needs("--rendezvous");
  options->operation.add(command, "static", 60);
  command
      .add_option("--from", options->from,
                  "continue from the newest complete checkpoint in this "
                  "folder")
      ->type_name("FOLDER");
  whole_number(*command.add_option("--restart", options->restarts,
                                   "restart a run that ends early from its newest checkpoint, at "
                                   "most this often within an hour"),
               1, 1000)
      .type_name("N");
  command.add_flag("--attended", options->operation.attended,
                   "approve: `orrery attach` answers instead of this terminal");
  const auto take_text = [options](const std::string& path) {
    options->own.push_back("live.text=" + path);
  };
  command.add_option_function<std::string>("--text", take_text, "file or folder to train on")
      ->type_name("PATH");
  options->add_json(command);
  options->add_seed(command);
  add_policy_option(command, options->policies);
  options->add_record(command);
  options->add_overrides(command);
  add_examples(command, {"orrery live examples/straggler-4-ranks.yaml",
                         "orrery live train.yaml --mode shadow --record train.log",
                         "orrery live train.yaml --policy mine.py:Mine",
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
  command->callback([options, jobs, command, &chosen] {
    if (options->file.empty() && jobs->log.empty()) throw CLI::RequiredError("FILE");
    chosen = [options, jobs, command] {
      if (jobs->log.empty()) return live(*options);
      check_live_jobs(*command);
      return live_jobs(*jobs, options->policies, options->operation, options->record,
                       options->json);
    };
  });
}

}  // namespace orrery::cli
