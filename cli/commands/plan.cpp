// orrery plan: recommends GPUs, layout, spares and checkpoints for a training, with the date, the
// cost and the probability of meeting deadline and budget.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/output_file.hpp"
#include "cli/shared/run_options.hpp"
#include "cli/shared/step_options.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "sim/planning/plan.hpp"
#include "sim/planning/plan_html.hpp"
#include "sim/planning/plan_options.hpp"
#include "sim/planning/plan_tables.hpp"
#include "sim/planning/row_scenario.hpp"
#include "traces/report/report.hpp"

namespace orrery::cli {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0, kDay_s = 86'400, kMwh = 3.6e9;
constexpr std::int64_t kShown = 10;
constexpr std::size_t kShownChanges = 5;

struct PlanCommand {
  sim::PlanOptions words;
  RunOptions run;
  std::int64_t top = -1, row = 1;
  std::string csv, html, scenario;
};

std::string days(double seconds) {
  return std::isfinite(seconds) ? fmt::format("{:.1f}", seconds / kDay_s) : "never";
}

std::string percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.0f}%", 100 * *share) : "-";
}

std::string million(const std::optional<sim::Quantiles>& usd) {
  return usd && std::isfinite(usd->p50) ? fmt::format("{:.3f}", usd->p50 / 1e6) : "-";
}

void print_header(std::size_t cluster, std::size_t layout) {
  fmt::print("{:>3}  {:<{}} {:>6} {:>5}  {:<{}} {:>7} {:>8} {:>7} {:>18} {:>7} {:>6} {:>7} {:>9}\n",
             "", "cluster", cluster, "GPUs", "spare", "layout", layout, "step s", "free GiB",
             "goodput", "days P10/P50/P90", "MUSD", "MWh", "in time", "in budget");
}

void print_row(std::size_t rank, const sim::PlannedRun& row, std::size_t cluster,
               std::size_t layout) {
  const sim::Quantiles& finish = row.outcome.finish_s;
  fmt::print(
      "{:>3}  {:<{}} {:>6} {:>5}  {:<{}} {:>7.4g} {:>8.1f} {:>6.1f}% {:>18} {:>7} {:>6.0f} "
      "{:>7} {:>9}\n",
      rank, row.cluster, cluster, row.gpus, row.gpus - row.job_gpus,
      words_of(row.layout.priced.choice), layout, row.layout.priced.estimate.step_s,
      (row.gpu_memory_bytes - row.memory_bytes) / kGiB, 100 * row.outcome.goodput,
      fmt::format("{} / {} / {}", days(finish.p10), days(finish.p50), days(finish.p90)),
      million(row.cost_usd), row.energy_j / kMwh, percent(row.deadline_met),
      percent(row.within_budget));
}

void print_table(const sim::Plan& plan, std::size_t shown) {
  std::size_t cluster = 7, layout = 6;
  for (std::size_t i = 0; i < shown; ++i) {
    cluster = std::max(cluster, plan.rows[i].cluster.size());
    layout = std::max(layout, words_of(plan.rows[i].layout.priced.choice).size());
  }
  print_header(cluster, layout);
  for (std::size_t i = 0; i < shown; ++i) print_row(i + 1, plan.rows[i], cluster, layout);
}

void print_first(const sim::PlannedRun& row) {
  const estimates::StepEstimate& step = row.layout.priced.estimate;
  const sim::TimeShares& shares = row.outcome.shares;
  const sim::Quantiles& alone = row.outcome.failures_only_s;
  fmt::print(
      "\nrow 1: {} ranks on {} nodes, {} spare node{}, batch of {} sequences, a checkpoint "
      "every {} steps ({:.0f} min)\n",
      row.job_gpus, row.layout.job_nodes, row.spare_nodes, row.spare_nodes == 1 ? "" : "s",
      row.layout.global_batch, row.run.every,
      static_cast<double>(row.run.every) * step.step_s / 60);
  fmt::print("memory: {:.1f} of {:.1f} GiB of a GPU\n", row.memory_bytes / kGiB,
             row.gpu_memory_bytes / kGiB);
  fmt::print(
      "step: {:.3f} s in kernels, {:.3f} s in exchanges inside layers, {:.3f} s waiting for "
      "gradients and parameters, {:.3f} s for other stages\n",
      step.compute_s, step.inside_s, step.exposed_s, step.pipeline_s);
  fmt::print(
      "run: {:.0f} failures; {:.2f}% checkpoints, {:.2f}% lost work, {:.2f}% detection, "
      "{:.2f}% recovery, {:.2f}% waiting for hardware, {:.2f}% longer steps on spare nodes\n",
      row.outcome.failures, 100 * shares.checkpoints, 100 * shares.lost_work,
      100 * shares.detection, 100 * shares.recovery, 100 * shares.waiting, 100 * shares.displaced);
  fmt::print(
      "date by failures alone: {} / {} / {} days (P10/P50/P90); the rest of the interval is "
      "the error of the step price\n",
      days(alone.p10), days(alone.p50), days(alone.p90));
  if (row.carbon_kg) {
    fmt::print("carbon: {:.0f} t of carbon dioxide until the median date\n",
               *row.carbon_kg / 1000);
  }
}

void print_changes(const sim::Plan& plan) {
  const std::size_t shown = std::min(plan.changes.size(), kShownChanges);
  if (shown == 0) return;
  fmt::print("\none change at a time:\n");
  for (std::size_t i = 0; i < shown; ++i) {
    const sim::PlanChange& each = plan.changes[i];
    fmt::print("  {:<36} {:>+7.2f} d", each.change, -each.saved_s / kDay_s);
    if (each.saved_usd) fmt::print(" {:>+9.3f} MUSD", -*each.saved_usd / 1e6);
    fmt::print("\n");
  }
}

void print_plan(const sim::PlanQuestion& question, const sim::Plan& plan, std::size_t shown) {
  fmt::print("{}, {} tokens: {} candidates, {}\n\n", question.job.model,
             grouped(static_cast<std::uint64_t>(question.tokens)), plan.rows.size(), plan.order);
  print_table(plan, shown);
  print_first(plan.rows.front());
  print_changes(plan);
  fmt::print("\nwhy: {}\n", plan.why);
  fmt::print("basis of the step price: {} ({})\n", plan.state, plan.distance);
  if (plan.nearest) {
    const sim::NearestRun& nearest = *plan.nearest;
    const std::string differences = nearest.differences.empty()
                                        ? "no difference"
                                        : fmt::format("{}", fmt::join(nearest.differences, ", "));
    fmt::print(
        "nearest measured run: {} ({} on {} {}), distance {:.2f}: measured {:.4g} s, "
        "predicted {:.4g} s; {}\n",
        nearest.id, nearest.model, nearest.gpus, nearest.gpu, nearest.distance, nearest.measured_s,
        nearest.predicted_s, differences);
  }
  for (const std::string& each : plan.warnings) fmt::print("warning: {}\n", each);
  fmt::print("assumed:\n");
  for (const std::string& each : plan.assumed) fmt::print("  {}\n", each);
}

void write_scenario(const PlanCommand& options, const sim::Plan& plan) {
  if (options.scenario.empty()) return;
  const auto row = static_cast<std::size_t>(options.row);
  if (row > plan.rows.size()) {
    throw Error(ErrorKind::usage,
                fmt::format("--row: expected a row from 1 to {}, found {}", plan.rows.size(), row));
  }
  const Scenario& scenario = plan.rows[row - 1].scenario;
  write_file(options.scenario,
             sim::scenario_text(scenario, "row " + std::to_string(row) +
                                              " of orrery plan: " + scenario.description()));
}

/// Returns the exit code of a plan whose rows meet the stated goals or not.
int verdict(const sim::PlanQuestion& question, const sim::Plan& plan) {
  const bool has_goals = question.deadline_s || question.budget_usd;
  if (!has_goals || plan.rows.front().goals_met >= question.confidence) return 0;
  fmt::print(stderr, "goal missed: the first row meets deadline and budget with {:.0f}%\n",
             100 * plan.rows.front().goals_met);
  return static_cast<int>(ErrorKind::goal_missed);
}

int plan(const PlanCommand& options) {
  const sim::PlanQuestion question = sim::question_of(options.words, options.run.overrides);
  const sim::Plan made = sim::make_plan(question);
  if (made.rows.empty()) {
    fmt::print(stderr, "goal missed: {}\n", made.why);
    return static_cast<int>(ErrorKind::goal_missed);
  }
  write_scenario(options, made);
  const std::size_t top = options.top < 0 ? 0 : static_cast<std::size_t>(options.top);
  if (!options.csv.empty()) write_file(options.csv, sim::plan_csv(question, made, top));
  if (!options.html.empty()) {
    write_file(options.html, sim::plan_html(sim::plan_json(question, made, 0)));
  }
  if (options.run.json) {
    fmt::print("{}\n", sim::plan_json(question, made, top).dump(2));
  } else {
    const std::size_t most = options.top < 0 ? kShown : options.top;
    print_plan(question, made, most == 0 ? made.rows.size() : std::min(most, made.rows.size()));
  }
  return verdict(question, made);
}

void declare_job(CLI::App& command, sim::PlanOptions& words) {
  LayoutQuestion& job = words.job;
  declare_model(job, command);
  command
      .add_option("--cluster", words.clusters,
                  "cluster presets (orrery list clusters), or cluster files")
      ->type_name("NAME|FILE[,NAME|FILE]");
  command
      .add_option("--gpus", words.gpus, "reserved GPUs, spares included: 512, 256,512 or 64..512")
      ->type_name("N");
  command.add_option("--tokens", words.tokens, "tokens of the training: 2T, 300B or 2e12")
      ->type_name("T");
  declare_step(job, command);
}

void declare_goals(CLI::App& command, sim::PlanOptions& words) {
  command
      .add_option("--deadline", words.deadline,
                  "time after the first step, '60 d', or a date (with --start)")
      ->type_name("TIME");
  command.add_option("--start", words.start, "date of the first step, 2027-01-01")
      ->type_name("DATE");
  command.add_option("--budget", words.budget, "USD for all reserved GPUs: 1500000 or 1.5M")
      ->type_name("USD");
  number(*command.add_option("--confidence", words.confidence,
                             "per cent with which deadline and budget shall be met (default: 80)"),
         1, 99)
      .type_name("P");
  number(*command.add_option("--batch-change", words.batch_change,
                             "per cent by which the batch may differ (default: 5)"),
         0, 50)
      .type_name("P");
  command
      .add_option("--failures", words.failures,
                  "profile of failures, none, or a file with a section failures (default: "
                  "llama3)")
      ->type_name("NAME|FILE.yaml");
  whole_number(
      *command.add_option("--seeds", words.seeds, "played runs for each interval (default: 1000)"),
      10, 10'000)
      .type_name("N");
}

void declare_prices(CLI::App& command, sim::PlanOptions& words) {
  command
      .add_option("--instance", words.instances,
                  "instances whose price replaces the cluster's, one for each GPU (orrery list "
                  "prices)")
      ->type_name("NAME[,NAME]");
  command.add_option("--grid", words.grid, "grid whose carbon is counted (orrery list prices)")
      ->type_name("NAME");
  command
      .add_option("--prices", words.prices,
                  "table of prices of one's own, whose rows replace those of the same name")
      ->type_name("PRICES.csv");
}

void declare(CLI::App& command, const std::shared_ptr<PlanCommand>& options) {
  declare_job(command, options->words);
  declare_prices(command, options->words);
  declare_goals(command, options->words);
  whole_number(*command.add_option("--top", options->top,
                                   "number of rows; 0: all (default: 10, all in JSON and CSV)"),
               0, 1'000'000)
      .type_name("N");
  command
      .add_option("--measured", options->words.measured,
                  "table of measured runs (columns of orrery predict and iter_time_s): names "
                  "the nearest one")
      ->type_name("RUNS.csv");
  options->run.add_json(command);
  command.add_option("--csv", options->csv, "also write the rows as CSV")->type_name("FILE.csv");
  command.add_option("--html", options->html, "also write the report as one page")
      ->type_name("FILE.html");
  command
      .add_option("--scenario", options->scenario,
                  "also write a row as a scenario for orrery simulate")
      ->type_name("FILE.yaml");
  whole_number(*command.add_option("--row", options->row, "row of --scenario (default: 1)"), 1, 40)
      .type_name("N");
  options->run.add_overrides(command);
  add_examples(
      command,
      {"orrery plan --model llama3-70b --cluster dgx-h100 --gpus 512 --tokens 2T --deadline '60 d'",
       "orrery plan --model llama3-8b --cluster dgx-h100,dgx-b200 --gpus 64..256 --tokens 300B "
       "--budget 500000",
       "orrery plan --model llama3-70b --cluster dgx-h100 --gpus 512 --tokens 2T --scenario "
       "plan.yaml"});
}

}  // namespace

void add_plan(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<PlanCommand>();
  CLI::App* command = app.add_subcommand(
      "plan", "which GPUs, layout, spares and checkpoints for a training: date, cost, confidence");
  declare(*command, options);
  command->callback([options, &chosen] { chosen = [options] { return plan(*options); }; });
}

}  // namespace orrery::cli
