// Main program `orrery`: parses the command line, runs one subcommand, and turns every error into
// an exit code: 1 a goal was missed, 2 usage, 3 bad input, 4 environment, 5 internal, 6 short of
// ranks.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/commands/commands.hpp"
#include "cli/shared/completion.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/run_options.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "generated/cli/revision.hpp"
#include "policies/run/worker.hpp"
#include "traces/report/report.hpp"

namespace orrery::cli {
namespace {

constexpr const char* kAbout =
    "Orrery rehearses GPU-cluster policies in simulation and runs the same policies live.";
constexpr const char* kFooter =
    "Exit codes: 0 ok; 1 a stated goal or comparison failed; 2 usage; 3 bad input;\n"
    "4 environment; 5 internal; 6 live run complete, but short of ranks;\n"
    "130 interrupted (143: by SIGTERM).";

using Declaration = void (*)(CLI::App&, Action&);

/// Commands of one purpose, in the order of the help.
struct CommandGroup {
  const char* title;
  std::vector<Declaration> declarations;
};

const std::vector<CommandGroup>& command_groups() {
  static const std::vector<CommandGroup> groups = {
      {"Plan", {add_plan, add_layouts, add_predict, add_rehearse}},
      {"Simulate", {add_simulate, add_compare_policies, add_compare, add_calibrate}},
      {"Run", {add_live, add_run, add_cluster}},
      {"Watch", {add_runs, add_status, add_attach, add_set, add_drain, add_stop}},
      {"Logs", {add_jobs, add_twin, add_explain, add_pack, add_fit, add_replay}},
      {"Files",
       {add_list, add_describe, add_check, add_new, add_import, add_export, add_convert,
        add_schema}},
      {"This program", {add_doctor, add_help, add_completion}},
  };
  return groups;
}

void declare(CLI::App& app, Action& chosen) {
  app.set_version_flag("--version", "orrery " + version() + ORRERY_REVISION,
                       "print the version, with commit and date if built from a git checkout");
  app.formatter(help_formatter(help_width()));
  app.set_help_flag("-h,--help", "print this and exit");
  app.footer(kFooter);
  app.require_subcommand(1);
  const auto all = [](CLI::App*) { return true; };
  for (const CommandGroup& group : command_groups()) {
    const std::size_t before = app.get_subcommands(all).size();
    for (const Declaration add : group.declarations) add(app, chosen);
    const std::vector<CLI::App*> commands = app.get_subcommands(all);
    for (std::size_t i = before; i < commands.size(); ++i) commands[i]->group(group.title);
  }
}

int fail(int code, const std::string& message) {
  fmt::print(stderr, "{}\n", message);
  return code;
}

int parse_and_run(int argc, char** argv) {
  CLI::App app(kAbout, "orrery");
  Action chosen;
  declare(app, chosen);
  if (argc == 1) {
    fmt::print("{}", app.help());
    std::fflush(stdout);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    return fail(static_cast<int>(ErrorKind::usage),
                "error: " + explain_usage(app, arguments, error));
  } catch (const Error& error) {
    return fail(static_cast<int>(error.kind()), error.what());
  }
  try {
    const int code = chosen();
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      throw Error(ErrorKind::environment, "cannot write to standard output");
    }
    return code;
  } catch (const Interrupted&) {
    return fail(interrupted_code(), "interrupted");
  } catch (const Error& error) {
    return fail(static_cast<int>(error.kind()), error.what());
  }
}

}  // namespace
}  // namespace orrery::cli

int main(int argc, char** argv) {
  try {
    return orrery::cli::parse_and_run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: internal: %s\n", error.what());
  } catch (...) {
    std::fputs("error: internal: an unknown exception\n", stderr);
  }
  return static_cast<int>(orrery::ErrorKind::internal);
}
