// orrery plan: recommends GPUs, layout, spares and checkpoints for a training, with the date, the
// cost and the probability of meeting deadline and budget.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/columns.hpp"
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

std::string percent(const std::optional<double>& share, int digits = 0) {
  return share ? fmt::format("{:.{}f}%", 100 * *share, digits) : "-";
}

std::string million(const std::optional<sim::Quantiles>& usd) {
  return usd && std::isfinite(usd->p50) ? fmt::format("{:.3f}", usd->p50 / 1e6) : "-";
}

using Rows = std::span<const sim::PlannedRun>;

template <class Cell>
Column column_of(const char* name, Rows rows, Cell cell) {
  Column column{name, {}, 0};
  for (const sim::PlannedRun& row : rows) column.cells.push_back(cell(row));
  return column;
}

std::string dates(const sim::Quantiles& finish) {
  return fmt::format("{} / {} / {}", days(finish.p10), days(finish.p50), days(finish.p90));
}

/// Returns the columns of dates, prices and stated goals. Cluster and GPUs have a column only if
/// they differ; otherwise their words are appended to `same`.
std::vector<Column> outcome_columns(Rows rows, std::vector<std::string>& same) {
  std::vector<Column> columns;
  const auto add = [&](const char* name, const auto& cell) {
    columns.push_back(column_of(name, rows, cell));
  };
  const auto add_if_it_differs = [&](const char* name, const char* unit, const auto& cell) {
    add(name, cell);
    if (differs(columns.back())) return;
    same.push_back(cell(rows.front()) + unit);
    columns.pop_back();
  };
  add_if_it_differs("cluster", "", [](const sim::PlannedRun& row) { return row.cluster; });
  add_if_it_differs("GPUs", " GPUs",
                    [](const sim::PlannedRun& row) { return std::to_string(row.gpus); });
  add("spare", [](const sim::PlannedRun& row) { return std::to_string(row.gpus - row.job_gpus); });
  add_if_it_differs("recovery", " after losses", [](const sim::PlannedRun& row) {
    return std::string(name_of(row.run.recovery));
  });
  add("goodput", [](const sim::PlannedRun& row) { return percent(row.outcome.goodput, 1); });
  add("days P10/P50/P90", [](const sim::PlannedRun& row) { return dates(row.outcome.finish_s); });
  add("MUSD", [](const sim::PlannedRun& row) { return million(row.cost_usd); });
  add("MWh", [](const sim::PlannedRun& row) { return fmt::format("{:.0f}", row.energy_j / kMwh); });
  const auto any_has = [&](const auto& value) {
    return std::any_of(rows.begin(), rows.end(),
                       [&](const sim::PlannedRun& row) { return (row.*value).has_value(); });
  };
  if (any_has(&sim::PlannedRun::deadline_met)) {
    add("in time", [](const sim::PlannedRun& row) { return percent(row.deadline_met); });
  }
  if (any_has(&sim::PlannedRun::within_budget)) {
    add("in budget", [](const sim::PlannedRun& row) { return percent(row.within_budget); });
  }
  return columns;
}

/// Prints a table of dates and prices, and one of the layouts of the same rows.
void print_tables(Rows rows) {
  std::vector<std::string> same;
  const std::vector<Column> outcomes = outcome_columns(rows, same);
  fmt::print("{}\n", table_text(outcomes, same));
  std::vector<LayoutChoice> choices;
  for (const sim::PlannedRun& row : rows) choices.push_back(row.layout.priced.choice);
  same.clear();
  std::vector<Column> columns = layout_columns(choices, same);
  columns.push_back(column_of("step s", rows, [](const sim::PlannedRun& row) {
    return fmt::format("{:.4g}", row.layout.priced.estimate.step_s);
  }));
  columns.push_back(column_of("free GiB", rows, [](const sim::PlannedRun& row) {
    return fmt::format("{:.1f}", (row.gpu_memory_bytes - row.memory_bytes) / kGiB);
  }));
  fmt::print("{}", table_text(columns, same));
}

/// Prints a text in lines of at most kTextColumns characters.
void print_text(const std::string& text) { fmt::print("{}\n", wrapped(text, 0, kTextColumns)); }

void print_first(const sim::PlannedRun& row) {
  const estimates::StepEstimate& step = row.layout.priced.estimate;
  const sim::TimeShares& shares = row.outcome.shares;
  fmt::print("\n");
  print_text(fmt::format("row 1: {} ranks on {} nodes, {} spare node{}, batch of {} sequences",
                         row.job_gpus, row.layout.job_nodes, row.spare_nodes,
                         row.spare_nodes == 1 ? "" : "s", row.layout.global_batch));
  fmt::print("checkpoints: every {} steps ({:.0f} min)\n", row.run.every,
             static_cast<double>(row.run.every) * step.step_s / 60);
  print_text("policies: " + row.policies.why);
  fmt::print("memory: {:.1f} of {:.1f} GiB of a GPU\n", row.memory_bytes / kGiB,
             row.gpu_memory_bytes / kGiB);
  print_text(fmt::format(
      "step: {:.3f} s in kernels, {:.3f} s in exchanges inside layers, {:.3f} s waiting for "
      "gradients and parameters, {:.3f} s for other stages",
      step.compute_s, step.inside_s, step.exposed_s, step.pipeline_s));
  print_text(fmt::format(
      "run: {:.0f} failures; {:.2f}% checkpoints, {:.2f}% lost work, {:.2f}% detection, "
      "{:.2f}% recovery, {:.2f}% waiting for hardware, {:.2f}% longer steps on spare nodes",
      row.outcome.failures, 100 * shares.checkpoints, 100 * shares.lost_work,
      100 * shares.detection, 100 * shares.recovery, 100 * shares.waiting, 100 * shares.displaced));
  print_text(fmt::format(
      "date by failures alone: {} days; the rest is the error of the step price",
      dates(row.outcome.failures_only_s)));
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
  print_text(fmt::format("{}, {} tokens: {} candidates, {}", question.job.model,
                         grouped(static_cast<std::uint64_t>(question.tokens)), plan.rows.size(),
                         plan.order));
  fmt::print("\n");
  print_tables(Rows(plan.rows.data(), shown));
  print_first(plan.rows.front());
  print_changes(plan);
  fmt::print("\n");
  print_text("why: " + plan.why);
  print_text(fmt::format("basis of the step price: {} ({})", plan.state, plan.distance));
  if (plan.nearest) {
    const sim::NearestRun& nearest = *plan.nearest;
    const std::string differences = nearest.differences.empty()
                                        ? "no difference"
                                        : fmt::format("{}", fmt::join(nearest.differences, ", "));
    print_text(fmt::format(
        "nearest measured run: {} ({} on {} {}), distance {:.2f}: measured {:.4g} s, "
        "predicted {:.4g} s; {}",
        nearest.id, nearest.model, nearest.gpus, nearest.gpu, nearest.distance, nearest.measured_s,
        nearest.predicted_s, differences));
  }
  for (const std::string& each : plan.warnings) print_text("warning: " + each);
  fmt::print("assumed:\n");
  for (const std::string& each : plan.assumed) fmt::print("  {}\n", wrapped(each, 4, kTextColumns));
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
  command
      .add_option("--recovery", options->words.recovery,
                  "recovery of the rows after a loss: restart (default), replace (needs a program "
                  "whose replacements get the state of another replica) or any: the better one")
      ->type_name("restart|replace|any");
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
