#include "cli/shared/torch_traces.hpp"

#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "cli/shared/package_python.hpp"
#include "cli/shared/usage.hpp"
#include "cli/shared/user_program.hpp"
#include "core/error.hpp"
#include "core/files/temporary_folder.hpp"
#include "core/process.hpp"

namespace orrery::cli {
namespace {

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

}  // namespace

int import_traces(const std::vector<std::string>& files, MeasuredOrigin origin,
                  const std::string& out, OutputFile& scenario) {
  const TemporaryFolder folder("orrery-pytorch");
  const int code = write_profiles(files, folder.path_of(""));
  if (code != 0) return code;
  const std::uint32_t ranks = read_profiles(folder.path_of(""), 1).front().ranks;
  const live::MeasuredStep measured =
      live::measure_step(read_profiles(folder.path_of(""), ranks), {.warm_up = 0, .least = 1});
  if (origin.description.empty()) {
    origin.description =
        fmt::format("PyTorch program on {} ranks of the machine that recorded its traces", ranks);
  }
  write_measured(measured, origin, out, scenario);
  return 0;
}

}  // namespace orrery::cli
