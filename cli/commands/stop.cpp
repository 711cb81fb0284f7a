// orrery stop: ends a live run, on demand with a checkpoint.
#include <memory>
#include <string>

#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/live_runs.hpp"
#include "cli/shared/run_orders.hpp"
#include "core/error.hpp"

namespace orrery::cli {
namespace {

int stop_run(const std::string& name, bool checkpoint) {
  LiveRun run = find_run(name);
  run.read_status();
  if (checkpoint && run.status.is_object() && !run.status.value("keeps_checkpoints", true)) {
    throw Error(ErrorKind::usage,
                fmt::format("--checkpoint: expected a run with a folder for checkpoints, but run "
                            "{} has none; stop it without --checkpoint, or {} next time",
                            run.id,
                            run.status.value("checkpoint_remedy",
                                             "set checkpoints.folder in the scenario")));
  }
  if (!leave_stop_order(run, checkpoint)) {
    fmt::print("run {} has already been asked to stop\n", run.id);
    return 0;
  }
  const char* const part = run.is_cluster() ? "reading" : run.is_twin() ? "forecast" : "step";
  fmt::print("run {} ends after the current {}{}\n", run.id, part,
             checkpoint ? ", with a checkpoint" : "");
  return 0;
}

struct StopOptions {
  std::string run;
  bool checkpoint = false;
};

}  // namespace

void add_stop(CLI::App& app, Action& chosen) {
  CLI::App* end = app.add_subcommand(
      "stop", "end a live run after the current step, reading of a cluster or forecast");
  const auto ended = std::make_shared<StopOptions>();
  add_run_argument(*end, ended->run, true);
  end->add_flag("--checkpoint", ended->checkpoint,
                "with a checkpoint, if the run keeps checkpoints");
  add_examples(*end, {"orrery stop a1B2c3 --checkpoint"});
  end->callback(
      [ended, &chosen] { chosen = [ended] { return stop_run(ended->run, ended->checkpoint); }; });
}

}  // namespace orrery::cli
