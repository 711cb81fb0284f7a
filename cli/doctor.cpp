// `orrery doctor`: the live program looks, since it may load CUDA; its exit code is ours.
#include <memory>

#include "cli/commands.hpp"
#include "cli/help.hpp"
#include "core/process.hpp"

namespace orrery::cli {

void add_doctor(CLI::App& app, Action& chosen) {
  const auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "doctor", "what this machine can do, what is missing and why; exit code 4 if anything is");
  command->add_flag("--json", *json, "print one JSON object");
  add_examples(*command, {"orrery doctor --json"});
  command->callback([json, &chosen] {
    chosen = [json] {
      std::vector<std::string> arguments{"doctor"};
      if (*json) arguments.emplace_back("--json");
      return ChildProcess(sibling_program("orrery-live"), arguments).wait().code;
    };
  });
}

}  // namespace orrery::cli
