// orrery layouts: prices and ranks all layouts of a job on a cluster, and says why the first layout
// is the best.
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/columns.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/output_file.hpp"
#include "cli/shared/run_options.hpp"
#include "cli/shared/shipped_examples.hpp"
#include "cli/shared/step_options.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "sim/estimates/predict/layouts.hpp"
#include "sim/estimates/prices/measured_kernels.hpp"
#include "sim/planning/row_scenario.hpp"
#include "topologies/builder.hpp"
#include "traces/report/report.hpp"
#include "traces/scenario/layout_question.hpp"

namespace orrery::cli {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
constexpr std::size_t kShown = 10;

struct LayoutsOptions {
  std::string file;
  LayoutQuestion question;
  RunOptions run;
  std::int64_t top = -1, row = 1;
  std::string scenario, kernels;
  bool csv = false, measured_only = false;
};

bool asks_by_name(const LayoutQuestion& asked) {
  return !asked.model.empty() || !asked.cluster.empty() || asked.gpus > 0 ||
         asked.sequence_length > 0 || asked.global_batch > 0 || asked.tokens_per_batch > 0 ||
         !asked.stack.empty() || !asked.precision.empty();
}

/// Loads the scenario, also if its own layout does not fit the changed values: that layout is only
/// one of the candidates. `has_own` tells whether the layout fits.
LoadedScenario any_layout(const LayoutsOptions& options, bool& has_own) {
  std::vector<std::string> overrides = options.run.overrides;
  has_own = true;
  try {
    return load_scenario(options.file, overrides);
  } catch (const Error&) {
    has_own = false;
    for (const char* one : {"data=1", "expert=1", "shard_group=0"}) {
      overrides.push_back(std::string("job.layout.") + one);
    }
    try {
      return load_scenario(options.file, overrides);
    } catch (const Error&) {}
    throw;
  }
}

AskedScenario asked_for(const LayoutsOptions& options, bool& has_own) {
  if (options.file.empty()) return scenario_of(options.question, options.run.overrides);
  if (asks_by_name(options.question)) {
    throw Error(ErrorKind::usage,
                "expected either a scenario or options for model, cluster and batch, got "
                "both: change the scenario with --set, for example --set cluster.nodes=64, or "
                "leave the file out");
  }
  return {any_layout(options, has_own), {}, nullptr};
}

using Shown = std::span<const estimates::PricedLayout>;

/// Returns the table of these layouts.
std::string table_of(Shown rows, double tokens) {
  std::vector<LayoutChoice> choices;
  Column steps{"step", {}, 7}, runs{"80% of runs", {}, 14}, rates{"tokens/s", {}, 10};
  Column memory{"GiB", {}, 5};
  for (const estimates::PricedLayout& each : rows) {
    const double step = each.estimate.step_s;
    choices.push_back(each.choice);
    steps.cells.push_back(fmt::format("{:.4g} s", step));
    runs.cells.push_back(
        fmt::format("{:.4g} to {:.4g}", each.interval.p10_s, each.interval.p90_s));
    rates.cells.push_back(grouped(static_cast<std::uint64_t>(tokens / step)));
    memory.cells.push_back(fmt::format("{:.1f}", each.estimate.memory.total().value / kGiB));
  }
  std::vector<std::string> same;
  std::vector<Column> columns = layout_columns(choices, same);
  for (Column* column : {&steps, &runs, &rates, &memory}) columns.push_back(std::move(*column));
  return table_text(columns, same);
}

void print_counts(const Job& job, const Cluster& cluster, const estimates::LayoutSearch& search) {
  const std::size_t all = search.layouts.size();
  std::size_t impossible = 0;
  for (const estimates::PricedLayout& each : search.layouts) {
    impossible += each.status == estimates::PricedLayout::Status::impossible;
  }
  const std::string model = job.model().preset().empty() ? "a model" : job.model().preset();
  fmt::print("{} on {} {}: {} tokens a step, {} layouts\n", model, grouped(cluster.gpus()),
             cluster.gpu_model().name, grouped(static_cast<std::uint64_t>(search.tokens)),
             grouped(all));
  fmt::print("{} fit into {:.1f} GiB, {} do not, {} are impossible\n\n", grouped(search.fitting),
             cluster.gpu_model().memory.value / kGiB, grouped(all - search.fitting - impossible),
             grouped(impossible));
}

void print_table(const estimates::LayoutSearch& search, std::size_t top) {
  if (search.fitting == 0) {
    if (search.layouts.empty()) return;
    const estimates::PricedLayout& nearest = search.layouts.front();
    fmt::print("nearest: {}: {}\n", words_of(nearest.choice), nearest.reason);
    return;
  }
  const std::size_t shown = top == 0 ? search.fitting : std::min(top, search.fitting);
  fmt::print("{}", table_of(Shown(search.layouts.data(), shown), search.tokens));
}

/// Prints a note if the scenario's own layout leaves GPUs free: layouts use all of them.
void note_spares(const Layout& own, const Cluster& cluster) {
  const std::uint64_t ranks =
      std::uint64_t{own.tensor()} * own.context() * own.pipeline() * own.data();
  const std::uint64_t nodes = ranks * cluster.nodes() / cluster.gpus();
  if (ranks >= cluster.gpus() || nodes == 0) return;
  fmt::print(
      stderr,
      "note: the scenario's own layout has {} ranks on {} GPUs; to keep the others as spares, "
      "lay out fewer nodes: --set cluster.nodes={}\n",
      grouped(ranks), grouped(cluster.gpus()), nodes);
}

/// Writes a layout that fits as a scenario.
void write_scenario(const LayoutsOptions& options, const AskedScenario& asked,
                    const estimates::LayoutSearch& search) {
  if (options.scenario.empty() || search.fitting == 0) return;
  const auto row = static_cast<std::size_t>(options.row);
  if (row > search.fitting) {
    throw Error(ErrorKind::usage, fmt::format("--row: expected a layout from 1 to {}, found {}",
                                              search.fitting, row));
  }
  const LayoutChoice& choice = search.layouts[row - 1].choice;
  Scenario scenario = asked.loaded.scenario;
  *scenario.mutable_job() = laid_out(scenario.job(), choice, asked.habits);
  write_file(options.scenario,
             sim::scenario_text(std::move(scenario), fmt::format("layout {} of orrery layouts: {}",
                                                                 row, words_of(choice))));
}

int layouts(const LayoutsOptions& options) {
  bool has_own_layout = false;
  const AskedScenario asked = asked_for(options, has_own_layout);
  const Scenario& scenario = asked.loaded.scenario;
  const Job& job = scenario.job();
  if (!scenario.has_job() || job.has_program() || !job.model().builtin().empty()) {
    throw Error(ErrorKind::bad_input,
                fmt::format("{}: expected a key 'job' with a transformer, by preset or by its "
                            "dimensions: other work has no layouts",
                            options.file));
  }
  const Cluster cluster = build_cluster(scenario.cluster(), asked.loaded.places, "cluster");
  estimates::LayoutBasis basis{.habits = asked.habits, .complete = asked.assumed.empty()};
  basis.machine.node = estimates::load_measured_kernels(options.kernels);
  if (basis.machine.node) basis.machine.node->check_gpu(cluster.gpu_model());
  const estimates::LayoutSearch search = estimates::search_layouts(job, cluster, basis);
  if (options.measured_only && search.fitting > 0) {
    const estimates::Interval& first = search.layouts.front().interval;
    const std::string refusal =
        estimates::transfer_refusal(first.state, "rests on: " + first.distance);
    if (!refusal.empty()) throw Error(ErrorKind::environment, refusal);
  }
  write_scenario(options, asked, search);
  const std::size_t whole = options.top < 0 ? 0 : static_cast<std::size_t>(options.top);
  if (options.run.json) {
    fmt::print("{}\n", estimates::layouts_json(search, asked.assumed, whole));
  } else if (options.csv) {
    fmt::print("{}", estimates::layouts_csv(search, whole));
  } else {
    print_counts(scenario.job(), cluster, search);
    print_table(search, options.top < 0 ? kShown : whole);
    if (!search.why.empty()) fmt::print("\n{}\n", wrapped("why: " + search.why, 0, kTextColumns));
    if (!asked.assumed.empty()) {
      const std::string assumed = fmt::format("assumed: {}", fmt::join(asked.assumed, ", "));
      fmt::print("{}\n", wrapped(assumed, 0, kTextColumns));
    }
    if (has_own_layout) note_spares(job.layout(), cluster);
  }
  if (search.fitting > 0) return 0;
  fmt::print(stderr, "goal missed: no layout fits\n");
  return static_cast<int>(ErrorKind::goal_missed);
}

void declare(CLI::App& command, const std::shared_ptr<LayoutsOptions>& options) {
  LayoutQuestion& asked = options->question;
  or_example(*command.add_option("SCENARIO", options->file,
                                 "scenario (YAML), or the name of a shipped example; or use the "
                                 "options below"))
      .type_name("FILE.yaml");
  declare_model(asked, command);
  command
      .add_option("--cluster", asked.cluster,
                  "cluster preset (orrery list clusters), or a cluster file")
      ->type_name("NAME|FILE");
  whole_number(*command.add_option("--gpus", asked.gpus, "GPUs of the job"), 1, 131072)
      .type_name("N");
  declare_step(asked, command);
  whole_number(*command.add_option("--top", options->top,
                                   "number of layouts to show; 0: all (default: 10, all in JSON "
                                   "and CSV)"),
               0, 1'000'000)
      .type_name("N");
  declare_kernels(options->kernels, command);
  options->run.add_json(command);
  command.add_flag("--csv", options->csv, "print one row a layout instead of the table");
  command.add_flag("--measured-only", options->measured_only,
                   "refuse a combination of GPU and software without fitted measurements (exit "
                   "code 4)");
  command
      .add_option("--scenario", options->scenario,
                  "also write a layout as a scenario for orrery simulate")
      ->type_name("OUT.yaml");
  whole_number(*command.add_option("--row", options->row, "layout of --scenario (default: 1)"), 1,
               1'000'000)
      .type_name("N");
  options->run.add_overrides(command);
  add_examples(command, {"orrery layouts --model llama3-70b --cluster dgx-h100 --gpus 512",
                         "orrery layouts examples/llama3-70b-512-h100.yaml --top 3",
                         "orrery layouts examples/llama3-70b-512-h100.yaml --csv > layouts.csv"});
}

}  // namespace

void add_layouts(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<LayoutsOptions>();
  CLI::App* command =
      app.add_subcommand("layouts", "price and rank all layouts of a job on a cluster");
  declare(*command, options);
  command->callback([options, &chosen] { chosen = [options] { return layouts(*options); }; });
}

}  // namespace orrery::cli
