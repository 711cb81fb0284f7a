// orrery import pytorch: execution traces and Kineto traces of a program's ranks, written as a
// scenario of this program on the machine that recorded them.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/measured_program.hpp"
#include "cli/shared/output_file.hpp"
#include "cli/shared/package_python.hpp"
#include "cli/shared/usage.hpp"
#include "cli/shared/user_program.hpp"
#include "core/error.hpp"
#include "core/files/temporary_folder.hpp"
#include "core/process.hpp"

namespace orrery::cli {
namespace {

struct PytorchOptions {
  std::vector<std::string> files;
  std::string out;
};

/// Exit code of programs/torch_traces.py after a message about the traces.
constexpr int kTracesRefused = 3;

/// Writes the profiles of all ranks into a folder. Returns the exit code: 0, or that of refused
/// traces.
int write_profiles(const std::vector<std::string>& files, const std::string& folder) {
  const std::string python = package_python().interpreter;
  std::vector<std::string> arguments{python, (programs_folder() / "torch_traces.py").string(),
                                     folder};
  arguments.insert(arguments.end(), files.begin(), files.end());
  const ExitStatus status = ChildProcess("/usr/bin/env", arguments).wait();
  if (status.code == 0 || status.code == kTracesRefused) return status.code;
  throw Error(ErrorKind::environment,
              status.code == kProgramNotFound
                  ? fmt::format("expected a Python that reads the traces, found none of the name "
                                "{}; set ORRERY_PYTHON",
                                python)
                  : fmt::format("the reader of the traces ended with {}", status.description()));
}

int import_pytorch(const PytorchOptions& options) {
  OutputFile scenario(options.out);
  const TemporaryFolder folder("orrery-pytorch");
  const int code = write_profiles(options.files, folder.path_of(""));
  if (code != 0) return code;
  const std::uint32_t ranks = read_profiles(folder.path_of(""), 1).front().ranks;
  const live::MeasuredStep measured =
      live::measure_step(read_profiles(folder.path_of(""), ranks), {.warm_up = 0, .least = 1});
  write_measured(measured,
                 {.comment = "Written by orrery import pytorch; for simulate and compare.",
                  .description = fmt::format(
                      "PyTorch program on {} ranks of the machine that recorded its traces", ranks),
                  .command = {}},
                 options.out, scenario);
  return 0;
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
  add_examples(*pytorch, {"orrery import pytorch traces/*.json -o train.yaml",
                          "orrery simulate train.yaml"});
  pytorch->callback(
      [options, &chosen] { chosen = [options] { return import_pytorch(*options); }; });
}

}  // namespace orrery::cli
