// The form `orrery twin RUN`, which is no subcommand: its options are those of `orrery twin`. One
// thread.
#pragma once

#include <CLI/App.hpp>

#include "cli/commands/commands.hpp"

namespace orrery::cli {

/// Declares RUN and its options for `command`, which is `twin`; the parser stores the action unless
/// the user chose a subcommand.
void add_twin_run(CLI::App& command, Action& chosen);

}  // namespace orrery::cli
