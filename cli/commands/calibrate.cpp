// orrery calibrate: measures this machine and writes its profile.
#include <algorithm>
#include <cstdio>
#include <memory>

#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/machine.hpp"
#include "cli/shared/output_file.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "core/schema/yaml_writer.hpp"

namespace orrery::cli {
namespace {

struct CalibrateOptions {
  std::string out;
  std::vector<std::uint32_t> ranks = {2, 4};
  bool quick = false;
  double tolerance = kMostProductError;
};

std::string summary(const MachineProfile& machine) {
  std::string text =
      fmt::format("one core     {:.1f} GFLOP/s fp32, {:.1f} GB/s copied, {:.2f} ns a parameter's "
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

int calibrate(const CalibrateOptions& options) {
  OutputFile file(options.out);
  const MeasuredMachine measured =
      measure_machine(options.ranks, options.quick, options.tolerance);
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

}  // namespace

void add_calibrate(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<CalibrateOptions>();
  CLI::App* command = app.add_subcommand(
      "calibrate", "measure this machine and write a profile for simulate and compare");
  command->add_option("-o,--output", options->out, "profile to write (YAML)")
      ->type_name("PROFILE.yaml")
      ->required();
  whole_number(*command->add_option("--ranks", options->ranks,
                                    "numbers of ranks whose links are measured"),
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
  add_examples(*command, {"orrery calibrate -o here.yaml",
                          "orrery simulate examples/compare/plain.yaml --machine here.yaml"});
  command->callback([options, &chosen] { chosen = [options] { return calibrate(*options); }; });
}

}  // namespace orrery::cli
