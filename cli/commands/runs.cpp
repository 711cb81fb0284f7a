// orrery runs: list of the live runs of this user on this machine.
#include <cstdint>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/live_runs.hpp"
#include "cli/shared/program_takeover.hpp"

namespace orrery::cli {
namespace {

using nlohmann::ordered_json;

int list_runs(bool json) {
  const std::vector<LiveRun> runs = find_runs();
  if (json) {
    ordered_json out = ordered_json::array();
    for (const LiveRun& run : runs) {
      ordered_json each = run.status.is_object() ? run.status : ordered_json::object();
      each["run"] = run.id;
      if (is_unwatched(run)) each["take_over"] = takeover_command(run);
      each.erase("events");
      each.erase("now");  // forecasts of a twin
      out.push_back(each);
    }
    fmt::print("{}\n", out.dump(2));
    return 0;
  }
  if (runs.empty()) fmt::print("no live run of this user\n");
  for (const LiveRun& run : runs) {
    if (run.is_cluster()) {
      fmt::print("{}  {:<24} {:<9} {} ({}), {} waiting, {} running\n", run.id, run.text("scenario"),
                 run.text("phase"), run.text("policy"), run.text("mode"),
                 run.number<std::uint64_t>("waiting"), run.number<std::uint64_t>("running"));
      continue;
    }
    if (run.is_twin()) {
      fmt::print("{}  {:<24} {:<9} {} (forecast), {} forecasts\n", run.id, run.text("scenario"),
                 run.text("phase"), run.text("policy"), run.number<std::uint64_t>("forecasts"));
      continue;
    }
    if (is_unwatched(run)) {
      fmt::print("{}  {:<24} unwatched step {} and later; its `orrery run` was killed: {}\n",
                 run.id, run.text("scenario"), run.number<std::uint64_t>("step"),
                 takeover_command(run));
      continue;
    }
    // Orrery does not know the number of steps of a user's program.
    const std::uint64_t steps = run.number<std::uint64_t>("steps");
    fmt::print("{}  {:<24} {:<9} step {}{}, {} lost, checkpoint {}\n", run.id, run.text("scenario"),
               run.text("phase"), run.number<std::uint64_t>("step"),
               steps > 0 ? fmt::format(" of {}", steps) : "", run.number<std::uint64_t>("losses"),
               run.checkpoint());
  }
  return 0;
}

}  // namespace

void add_runs(CLI::App& app, Action& chosen) {
  CLI::App* list = app.add_subcommand("runs", "live runs of this user on this machine");
  const auto json = std::make_shared<bool>(false);
  list->add_flag("--json", *json, "print JSON");
  add_examples(*list, {"orrery runs"});
  list->callback([json, &chosen] { chosen = [json] { return list_runs(*json); }; });
}

}  // namespace orrery::cli
