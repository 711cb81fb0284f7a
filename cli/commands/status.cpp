// orrery status: status of a live run, once or repeatedly.
#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/live_runs.hpp"
#include "cli/shared/program_takeover.hpp"
#include "core/schema/names.hpp"
#include "live/run/files/run_files.hpp"
#include "policies/handover/hand_over.hpp"

namespace orrery::cli {
namespace {

using nlohmann::ordered_json;

constexpr double kLongCallS = 1;  // shorter calls of policies are not shown
constexpr std::size_t kShownForecasts = 12;

std::string delayed(const LiveRun& run) {
  const auto delay = run.number<double>("delay_s");
  return delay > 0 ? fmt::format(", this step is delayed by {} s", delay) : "";
}

/// Prints a planned removal: the part, its state, and the return if that is stated.
void print_removal(const ordered_json& part) {
  const auto moment = [&part](const std::string& key) -> std::string {
    const auto at = part.find(key + "_s"), at_step = part.find(key + "_step");
    if (at != part.end() && at->is_number()) return fmt::format("at {:.1f} s", at->get<double>());
    if (at_step == part.end() || !at_step->is_number()) return "";
    return fmt::format("before step {}", at_step->get<std::uint64_t>());
  };
  const std::string back = moment("back_at");
  const std::string state =
      part.value("removed", false) ? "is removed as announced" : "is to be removed " + moment("at");
  fmt::print("  {} {}{}{}\n", part.value("part", "-"), state, back.empty() ? "" : "; back ", back);
}

void print_ranks(const LiveRun& run) {
  for (const auto& rank : run.list("ranks")) {
    fmt::print("  rank {:<4} {:<8} pid {:<8} step {}, micro-batch {}\n", rank.value("rank", 0u),
               rank.value("state", "-"), rank.value("pid", 0), rank.value("step", 0u),
               rank.value("micro_batches", 0u));
  }
}

/// Prints which policies have owed an answer for longer than kLongCallS.
void print_owed_answer(const LiveRun& run) {
  const double waiting_s = run.number<double>("policy_waiting_s");
  if (waiting_s < kLongCallS) return;
  const std::string asked = run.text("policy_asked");
  fmt::print("  {} {} owed an answer for {:.1f} s{}\n", asked,
             asked.starts_with("the policies") ? "have" : "has", waiting_s,
             find_named<HandOverMode>(run.text("mode")) == HandOverMode::shadow
                 ? "; the run does not wait for it"
                 : "");
}

/// Prints the status of a program of `orrery run`, which has no batch and no loss.
void print_program(const LiveRun& run) {
  fmt::print("  step {}, {:.1f} s; median step {:.3f} s, ranks lost {}, missing {}, snapshot {}\n",
             run.number<std::uint64_t>("step"), run.number<double>("elapsed_s"),
             run.number<double>("step_time_s"), run.number<std::uint64_t>("losses"),
             run.number<std::uint64_t>("ranks_missing"), run.checkpoint());
  if (is_unwatched(run)) {
    fmt::print(
        "  `orrery run` was killed: the ranks go on alone since this status; take them over: "
        "{}\n",
        takeover_command(run));
  }
  print_owed_answer(run);
  print_ranks(run);
}

/// Prints the decisions that wait for an answer.
void print_questions(const LiveRun& run) {
  for (const auto& open : run.list("questions")) {
    fmt::print("  decision {} waits for an answer since {:.1f} s: {}: {}\n",
               open.value("decision", std::uint64_t{0}), open.value("at_s", 0.0),
               open.value("what", std::string()), open.value("why", std::string()));
  }
}

/// Returns the state of the leases: "20 s, 12 commands, the newest at 31.5 s; leads as host-1".
std::string leases(const LiveRun& run) {
  std::string out = fmt::format("{} s, {} commands", run.number<std::int64_t>("lease_s"),
                                run.number<std::uint64_t>("lease_commands"));
  if (const auto at = run.number<double>("lease_renewed_s"); at > 0) {
    out += fmt::format(", the newest at {:.1f} s", at);
  }
  const std::string state = run.text("lease_state");
  return state.empty() ? out : out + "; " + state;
}

/// Prints the status of a policy on a cluster of `orrery cluster`.
void print_cluster(const LiveRun& run) {
  fmt::print("  {} on {} nodes x {} GPUs, {:.1f} s\n", run.text("policy"),
             run.number<std::uint64_t>("nodes"), run.number<std::uint64_t>("gpus_per_node"),
             run.number<double>("elapsed_s"));
  fmt::print("  jobs: {} waiting, {} running; ordered: {} starts, {} stops, {} not carried out\n",
             run.number<std::uint64_t>("waiting"), run.number<std::uint64_t>("running"),
             run.number<std::uint64_t>("starts"), run.number<std::uint64_t>("stops"),
             run.number<std::uint64_t>("orders"));
  fmt::print("  readings {}, {} failed, the slowest {:.0f} ms; decisions {}, complaints {}\n",
             run.number<std::uint64_t>("readings"), run.number<std::uint64_t>("failed_readings"),
             run.number<double>("slowest_reading_ms"), run.number<std::uint64_t>("decisions"),
             run.number<std::uint64_t>("complaints"));
  fmt::print("  leases {}\n", leases(run));
  print_questions(run);
}

/// Returns the time from the instant of a forecast to `key` of this forecast: "62.0 s".
std::string time_ahead(const ordered_json& row, const char* key) {
  if (!row.contains(key) || !row[key].is_number()) return "later";
  return fmt::format("{:.1f} s", row[key].get<double>() - row.value("made_s", 0.0));
}

/// Prints the rows of a score: "starts" or "ends" of jobs, "steps" of a run.
void print_score(const ordered_json& score, const char* kind) {
  for (const auto& row : score.value(kind, ordered_json::array())) {
    fmt::print(
        "  {:<7} {:<7} {} forecasts, median error {:.1f} s, {:.1f}% in 80%, {:.1f}% in "
        "95%\n",
        kind, row.value("horizon", std::string()), row.value("forecasts", std::uint64_t{0}),
        row.value("median_error_s", 0.0), 100 * row.value("coverage_80", 0.0),
        100 * row.value("coverage_95", 0.0));
  }
}

/// Prints the newest forecasts and the score of a twin of `orrery twin`.
void print_twin_status(const LiveRun& run) {
  fmt::print("  {} forecasts, {:.1f} s; choice {}\n", run.number<std::uint64_t>("forecasts"),
             run.number<double>("elapsed_s"), run.text("choice"));
  std::size_t shown = 0;
  const ordered_json now = run.list("now");
  for (const auto& row : now) {
    if (++shown > kShownForecasts) break;
    fmt::print("  {:<16} {:<5} {:<10} in {} (80%: {} to {}; 95%: {} to {})\n",
               row.value("job", std::string()), row.value("kind", std::string()),
               row.value("policy", std::string()), time_ahead(row, "median_s"),
               time_ahead(row, "low80_s"), time_ahead(row, "high80_s"), time_ahead(row, "low95_s"),
               time_ahead(row, "high95_s"));
  }
  if (now.size() > kShownForecasts) {
    fmt::print("  {} more forecasts: orrery status {} --json, or now.csv of --out\n",
               now.size() - kShownForecasts + run.number<std::uint64_t>("now_left_out"), run.id);
  }
  if (!run.status.contains("score") || !run.status["score"].is_object()) return;
  for (const auto& row : run.list("node_loss")) {
    fmt::print(
        "  a lost node: {:<10} {:<12} {:+.4g} (80%: {:+.4g} to {:+.4g}; 95%: {:+.4g} to "
        "{:+.4g})\n",
        row.value("policy", std::string()), row.value("cost", std::string()),
        row.value("mean", 0.0), row.value("low80", 0.0), row.value("high80", 0.0),
        row.value("low95", 0.0), row.value("high95", 0.0));
  }
  const ordered_json regrets = run.status.value("regret", ordered_json::object());
  for (const auto& [goal, regret] : regrets.items()) {
    fmt::print("  regret of {}: {} {:.4g}\n", run.text("policy"), goal, regret.get<double>());
  }
  const ordered_json& score = run.status["score"];
  for (const char* kind : {"starts", "steps", "ends"}) print_score(score, kind);
}

void print_status(const LiveRun& run) {
  fmt::print("run {}  {}  {}  ({})\n", run.id, run.text("scenario"), run.text("phase"),
             run.text("mode"));
  if (run.is_cluster()) return print_cluster(run);
  if (run.is_twin()) return print_twin_status(run);
  if (run.status.is_object() && !run.status.contains("batch")) return print_program(run);
  fmt::print("  step {} of {}, {:.1f} s; newest step {:.3f} s, loss {:.4f}\n",
             run.number<std::uint64_t>("step"), run.number<std::uint64_t>("steps"),
             run.number<double>("elapsed_s"), run.number<double>("step_time_s"),
             run.number<double>("loss"));
  fmt::print("  batch {} micro-batches, learning rate x {}, {} samples{}\n",
             run.number<std::uint64_t>("batch"), run.number<double>("learning_rate_factor"),
             run.number<std::uint64_t>("samples"), delayed(run));
  fmt::print(
      "  ranks lost {}, controllers lost {}, decisions {}, checkpoints {} ({} failed), "
      "newest {}\n",
      run.number<std::uint64_t>("losses"), run.number<std::uint64_t>("controller_restarts"),
      run.number<std::uint64_t>("decisions"), run.number<std::uint64_t>("checkpoints_written"),
      run.number<std::uint64_t>("checkpoints_failed"), run.checkpoint());
  if (!run.status.is_object()) return;
  if (const auto missing = run.number<std::uint64_t>("ranks_missing"); missing > 0) {
    fmt::print("  the job lacks {} rank{}\n", missing, missing == 1 ? "" : "s");
  }
  print_owed_answer(run);
  if (const std::string why = run.text("without_takeover"); why.length() > 1) {
    fmt::print("  without takeover: {}\n", why);
  }
  for (const auto& part : run.list("removals")) {
    print_removal(part);
  }
  for (const auto& part : run.list("slower")) {
    fmt::print("  {} works at {:.4g} % of its rate since {:.1f} s\n",
               part.value("part", std::string()), 100 * part.value("rate", 1.0),
               part.value("since_s", 0.0));
  }
  print_ranks(run);
}

int show_status(const std::string& name, bool json, bool watch) {
  LiveRun run = find_run(name);
  do {
    if (json) {
      run.status["run"] = run.id;
      if (is_unwatched(run)) run.status["take_over"] = takeover_command(run);
      fmt::print("{}\n", run.status.dump(watch ? -1 : 2));
    } else {
      print_status(run);
    }
    std::fflush(stdout);
    if (!watch) return 0;
    poll(nullptr, 0, 4 * live::kLookMs);
    run.read_status();
  } while (run.is_living());
  fmt::print("run {} has ended\n", run.id);
  return 0;
}

struct StatusOptions {
  std::string run;
  bool json = false, watch = false;
};

}  // namespace

void add_status(CLI::App& app, Action& chosen) {
  CLI::App* look = app.add_subcommand("status", "status of a live run");
  const auto looked = std::make_shared<StatusOptions>();
  add_run_argument(*look, looked->run, false);
  look->add_flag("--json", looked->json, "print JSON; with --watch a line a second");
  look->add_flag("--watch", looked->watch, "repeat every second until the run has ended");
  add_examples(*look, {"orrery status", "orrery status a1B2c3 --watch"});
  look->callback([looked, &chosen] {
    chosen = [looked] { return show_status(looked->run, looked->json, looked->watch); };
  });
}

}  // namespace orrery::cli
