// orrery doctor: lists the parts of this machine that work. The live program checks them, because
// it may load CUDA; its exit code becomes the exit code of the command.
#include <memory>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "core/process.hpp"

namespace orrery::cli {

void add_doctor(CLI::App& app, Action& chosen) {
  const auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "doctor", "list the parts of this machine that work or are missing, with reasons; exit "
                "code 4 if a part is missing");
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
