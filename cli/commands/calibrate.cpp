// orrery calibrate: measures this machine, a program or a table of runs, or reads the measured
// kernels of a node, and writes a profile, a scenario, a software stack or the kernels.
#include <algorithm>
#include <cstdio>
#include <memory>

#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/machine.hpp"
#include "cli/shared/output_file.hpp"
#include "cli/shared/program_calibration.hpp"
#include "cli/shared/program_start.hpp"
#include "cli/shared/run_calibration.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "core/schema/yaml_writer.hpp"
#include "traces/files/csv.hpp"
#include "traces/published/kernel_table.hpp"

namespace orrery::cli {
namespace {

struct CalibrateOptions {
  std::string out;
  std::vector<std::uint32_t> ranks = {2, 4};
  bool quick = false;
  double tolerance = kMostProductError;
  std::string kernels, gpu;    ///< table of measured kernels, and its GPU
  ProgramCalibration program;  ///< calibration on a program, if it has words
  RunCalibration runs;         ///< calibration on runs, if it has a table
};

std::string summary(const MachineProfile& machine) {
  std::string text = fmt::format(
      "one core     {:.1f} GFLOP/s fp32, {:.1f} GB/s copied, {:.2f} ns a parameter's "
      "update\n",
      machine.processor().fp32() * machine.kernels().gemm_peak() / 1e9,
      machine.processor().memory_bandwidth() / 1e9, machine.update() * 1e9);
  for (const RankLinks& links : machine.links()) {
    text += fmt::format("{} ranks      {:.0f} us a round, {:.0f} MB/s, control {:.2f} ms a step\n",
                        links.ranks(), links.latency() * 1e6, links.bandwidth() / 1e6,
                        links.control() * 1e3);
  }
  for (const CodecRate& rate : machine.codecs()) {
    text += fmt::format("{:<12} encodes {:.2f} GB/s, decodes {:.2f} GB/s of fp32 gradient\n",
                        rate.codec(), rate.encode() / 1e9, rate.decode() / 1e9);
  }
  return text;
}

/// Writes the kernels of a table as a file for --kernels.
int read_kernels(const CalibrateOptions& options) {
  const std::string text = read_packed_text(options.kernels);
  const KernelTable table = read_kernel_table(options.kernels, text, options.gpu);
  write_file(options.out,
             "# Kernels of one node as `orrery calibrate --kernels` read them; for `--kernels`.\n" +
                 to_yaml(table.measured));
  const KernelMeasurements& found = table.measured;
  fmt::print(
      "{}: {} products, {} attentions, {} memory-bound operators, {} collectives; {} rows "
      "between nodes or without an efficiency ignored\n",
      found.gpu(), found.products_size(), found.attention_size(), found.streams_size(),
      found.collectives_size(), table.ignored);
  return 0;
}

int calibrate(const CalibrateOptions& options) {
  if (!options.kernels.empty()) return read_kernels(options);
  if (!options.runs.runs.empty()) {
    if (!options.program.program.empty()) {
      throw Error(ErrorKind::usage, "expected --runs or a program, found both");
    }
    RunCalibration runs = options.runs;
    runs.out = options.out;
    return calibrate_runs(runs);
  }
  if (!options.program.program.empty()) {
    ProgramCalibration program = options.program;
    program.out = options.out;
    return calibrate_program(program);
  }
  OutputFile file(options.out);
  const MeasuredMachine measured = measure_machine(options.ranks, options.quick, options.tolerance);
  if (measured.product_error > options.tolerance) {
    throw Error(ErrorKind::goal_missed,
                fmt::format("no profile written: {}, but at most {:.0f}% is allowed (--tolerance). "
                            "Other programs keep this machine busy; try again when it is quiet",
                            describe_error(measured), 100 * options.tolerance));
  }
  file.write_and_rename("# This machine as `orrery calibrate` measured it; for `--machine`.\n" +
                        to_yaml(measured.profile));
  fmt::print("{}", summary(measured.profile));
  return 0;
}

/// Adds the program itself and the options of a measured PyTorch program.
void add_program_options(CLI::App& command, ProgramCalibration& program) {
  CLI::Option* const words = command.add_option(
      "PROGRAM", program.program,
      "program with its arguments, after --: python train.py ... or torchrun ... train.py ...");
  add_sums_option(command, program.sums)->needs(words);
  whole_number(*command.add_option("-n", program.ranks,
                                   "ranks of the program; default: 1, or torchrun's "
                                   "--nproc-per-node"),
               1, 4096)
      .type_name("N");
  whole_number(*command.add_option("--steps", program.steps,
                                   "measured steps of the program, which is then ended"),
               6, 10000)
      .type_name("N")
      ->capture_default_str();
  command.add_flag("--per-example", program.per_example,
                   "a micro-batch of the scenario is one example of each batch of the program, not "
                   "a whole pass: for forecasts of shares (predictive-rebalance)");
  command
      .add_option("--traces", program.traces,
                  "let PyTorch record an execution trace and a Kineto trace of each rank, of two "
                  "steps behind the measured ones, and import them as FOLDER/NAME.yaml")
      ->type_name("FOLDER");
}

}  // namespace

void add_calibrate(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<CalibrateOptions>();
  CLI::App* command = app.add_subcommand(
      "calibrate",
      "measure this machine and write a profile, or a PyTorch program and write a scenario, for "
      "simulate and compare; or fit a software stack to measured runs; or read measured kernels "
      "for predict and layouts");
  command
      ->add_option("-o,--output", options->out,
                   "profile, scenario, stack or kernels to write (YAML)")
      ->type_name("FILE.yaml")
      ->required();
  whole_number(
      *command->add_option("--ranks", options->ranks, "numbers of ranks whose links are measured"),
      2, 64)
      .type_name("N,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->default_str("2,4");
  command->add_flag("--quick", options->quick, "fewer sizes and repetitions");
  number(*command->add_option("--tolerance", options->tolerance,
                              "exit 1, and write nothing, if the mean error of the fitted prices "
                              "of products exceeds this share"),
         0, 100)
      .type_name("SHARE")
      ->capture_default_str();
  CLI::Option* kernels =
      command
          ->add_option("--kernels", options->kernels,
                       "table of a node's own kernel measurements (CSV, .gz too), to be written as "
                       "a file for --kernels of predict, layouts and simulate; nothing is measured")
          ->type_name("MY.csv");
  command->add_option("--gpu", options->gpu, "GPU of --kernels, if the table has several")
      ->type_name("NAME")
      ->needs(kernels);
  add_program_options(*command, options->program);
  command
      ->add_option("--runs", options->runs.runs,
                   "measured runs (columns of orrery predict and iter_time_s): write a software "
                   "stack for --stack")
      ->type_name("RUNS.csv");
  command->add_option("--name", options->runs.name, "name of this stack (default: own-RUNS)")
      ->type_name("NAME");
  command
      ->add_option("--stacks", options->runs.stacks,
                   "stacks that replace the shipped ones as the basis of --runs")
      ->type_name("STACKS.yaml");
  add_examples(*command,
               {"orrery calibrate -o train.yaml -n 2 -- python train.py --lr 3e-4",
                "orrery calibrate -o here.yaml", "orrery calibrate --runs mine.csv -o mine.yaml",
                "orrery calibrate --kernels node.csv --gpu B200 -o node.yaml",
                "orrery simulate examples/compare/plain.yaml --machine here.yaml"});
  command->callback([options, &chosen] { chosen = [options] { return calibrate(*options); }; });
}

}  // namespace orrery::cli
