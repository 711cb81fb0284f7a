// Main program `orrery`: parses the command line, runs one subcommand, and turns every error into
// an exit code: 1 a goal was missed, 2 usage, 3 bad input, 4 environment, 5 internal, 6 short of
// ranks.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/completion.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/run_options.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
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

void declare(CLI::App& app, Action& chosen) {
  app.set_version_flag("--version", "orrery " + version(), "print the version");
  app.formatter(help_formatter(help_width()));
  app.set_help_flag("-h,--help", "print this and exit");
  app.footer(kFooter);
  app.require_subcommand(1);
  add_simulate(app, chosen);
  add_live(app, chosen);
  add_runs(app, chosen);
  add_compare_policies(app, chosen);
  add_compare(app, chosen);
  add_calibrate(app, chosen);
  add_rehearse(app, chosen);
  add_run(app, chosen);
  add_replay(app, chosen);
  add_jobs(app, chosen);
  add_explain(app, chosen);
  add_pack(app, chosen);
  add_predict(app, chosen);
  add_layouts(app, chosen);
  add_list(app, chosen);
  add_check(app, chosen);
  add_new(app, chosen);
  add_import(app, chosen);
  add_export(app, chosen);
  add_schema(app, chosen);
  add_doctor(app, chosen);
  add_help(app, chosen);
  add_completion(app, chosen);
}

int fail(int code, const std::string& message) {
  fmt::print(stderr, "{}\n", message);
  return code;
}

int parse_and_run(int argc, char** argv) {
  CLI::App app(kAbout, "orrery");
  Action chosen;
  declare(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    return fail(static_cast<int>(ErrorKind::usage),
                "error: " + explain_usage(app, arguments, error));
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
