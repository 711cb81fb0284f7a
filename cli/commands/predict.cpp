// orrery predict: predicts the iteration times of the runs in a table. The predictions need no
// engine, so they run in this process, one row after the other.
#include <filesystem>
#include <memory>
#include <optional>

#include <malloc.h>

#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/output_file.hpp"
#include "cli/shared/step_options.hpp"
#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "core/schema/yaml_writer.hpp"
#include "sim/estimates/predict/prediction.hpp"
#include "sim/estimates/prices/measured_kernels.hpp"
#include "traces/files/csv.hpp"
#include "traces/published/published_run.hpp"
#include "traces/workload/own_stack.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;

struct PredictOptions {
  std::string cases, out, scenarios, stacks, stack, kernels;
  bool measured_only = false;
};

/// Returns the stacks of --stacks, which replace the shipped stacks of the same name.
StackCatalog own_stacks(const std::string& path) {
  StackCatalog stacks;
  if (path.empty()) return stacks;
  load_yaml_file(path, stacks);
  for (SoftwareStack& stack : *stacks.mutable_stacks()) fill_defaults(stack);
  return stacks;
}

void take_stack(const StackCatalog& stacks, PublishedRun& run) {
  for (const SoftwareStack& stack : stacks.stacks()) {
    if (stack.name() == run.job.stack()) use_stack(stack, run);
  }
}

/// Returns the row's id as a file name; "line-N" for a row without id.
std::string file_name(const TableRow& row) {
  std::string name;
  for (const char c : row.id.substr(0, 100)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_';
    name += plain ? c : '_';
  }
  return name.empty() ? fmt::format("line-{}", row.line) : name;
}

void write_scenario(const PredictOptions& options, const TableRow& row, const PublishedRun& run) {
  if (options.scenarios.empty() || !run.refusal.empty()) return;
  const std::string name = file_name(row);
  const std::string head =
      fmt::format("# {} of {}, written by orrery predict\n", name, options.cases);
  write_file((fs::path(options.scenarios) / (name + ".yaml")).string(),
             head + to_yaml_file(scenario_of(run, name)));
}

void make_folder(const std::string& path) {
  if (path.empty()) return;
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    throw Error(ErrorKind::environment,
                fmt::format("cannot make the folder {}: {}", path, error.message()));
  }
}

/// Lets the allocator keep the memory of a row for the next one: by default it returns the top of
/// the heap to the system after each row.
void keep_memory() {
  constexpr int kKept = 64 << 20, kAtOnce = 8 << 20;
  mallopt(M_TRIM_THRESHOLD, kKept);
  mallopt(M_TOP_PAD, kAtOnce);
}

int predict(const PredictOptions& options) {
  keep_memory();
  const StackCatalog stacks = own_stacks(options.stacks);
  std::optional<SoftwareStack> own;
  if (!options.stack.empty()) own = load_own_stack(options.stack);
  estimates::MachineCosts machine;
  machine.node = estimates::load_measured_kernels(options.kernels);
  make_folder(options.scenarios);
  const std::string text = read_packed_text(options.cases);
  PublishedTable table(options.cases, text);
  std::string out = estimates::prediction_header();
  std::size_t rows = 0, supported = 0;
  for (TableRow row; table.next(row); ++rows) {
    PublishedRun run = published_run(row);
    take_stack(stacks, run);
    if (own && run.job.stack() == own->kin()) use_stack(*own, run);
    write_scenario(options, row, run);
    const estimates::Prediction prediction =
        estimates::predict_run(row.id, run, options.measured_only, machine);
    supported += prediction.supported;
    out += estimates::prediction_row(prediction);
  }
  if (options.out.empty()) {
    fmt::print("{}", out);
    return 0;
  }
  write_file(options.out, out);
  fmt::print("{} rows, {} of them predicted, written to {}\n", rows, supported, options.out);
  return 0;
}

}  // namespace

void add_predict(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<PredictOptions>();
  CLI::App* command = app.add_subcommand(
      "predict", "iteration time, intervals and memory of training runs in a table");
  command->add_option("CASES", options->cases, "table of runs, one a row (CSV, .gz too)")
      ->type_name("CASES.csv")
      ->required();
  command->add_option("-o,--out", options->out, "file for the predictions (default: print)")
      ->type_name("OUT.csv");
  command
      ->add_option("--scenarios", options->scenarios,
                   "also write each run as a scenario for orrery simulate")
      ->type_name("DIR");
  command
      ->add_option("--stacks", options->stacks,
                   "software stacks that replace the shipped ones of the same name")
      ->type_name("STACKS.yaml");
  command
      ->add_option("--stack", options->stack,
                   "stack of orrery calibrate --runs, for the rows of its framework")
      ->type_name("STACK.yaml");
  declare_kernels(options->kernels, *command);
  command->add_flag("--measured-only", options->measured_only,
                    "refuse runs whose combination of GPU and software has no fitted measurements");
  add_examples(*command, {"orrery predict runs.csv -o predicted.csv"});
  command->callback([options, &chosen] { chosen = [options] { return predict(*options); }; });
}

}  // namespace orrery::cli
