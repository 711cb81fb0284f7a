// orrery import pytorch: execution traces and Kineto traces of a program's ranks, written as a
// scenario of this program on the machine that recorded them.
#include <memory>
#include <string>
#include <vector>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/output_file.hpp"
#include "cli/shared/torch_traces.hpp"

namespace orrery::cli {
namespace {

struct PytorchOptions {
  std::vector<std::string> files;
  std::string out;
};

int import_pytorch(const PytorchOptions& options) {
  OutputFile scenario(options.out);
  return import_traces(options.files,
                       {.comment = "Written by orrery import pytorch; for simulate and compare.",
                        .description = "",
                        .command = {}},
                       options.out, scenario);
}

}  // namespace

void add_import_pytorch(CLI::App& command, Action& chosen) {
  const auto options = std::make_shared<PytorchOptions>();
  CLI::App* pytorch = command.add_subcommand(
      "pytorch",
      "execution traces and Kineto traces of all ranks of a PyTorch program on CPUs, written as a "
      "scenario of this program");
  pytorch
      ->add_option("FILE", options->files,
                   "traces of all ranks in any order, .gz too: of each rank one of "
                   "ExecutionTraceObserver and one of torch.profiler")
      ->required();
  pytorch->add_option("-o,--output", options->out, "scenario to write, beside NAME.0.et")
      ->type_name("NAME.yaml")
      ->required();
  add_examples(*pytorch,
               {"orrery import pytorch traces/*.json -o train.yaml", "orrery simulate train.yaml"});
  pytorch->callback(
      [options, &chosen] { chosen = [options] { return import_pytorch(*options); }; });
}

}  // namespace orrery::cli
