// Options of the commands that price steps: batch, sequences and software of a step, measured
// kernels. One thread.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "traces/scenario/layout_question.hpp"

namespace orrery::cli {

/// Declares --model, which fills `asked`. `asked` must outlive the command.
void declare_model(LayoutQuestion& asked, CLI::App& command);

/// Declares --sequence-length, --global-batch, --tokens-per-batch, --stack and --precision, which
/// fill `asked`. `asked` must outlive the command.
void declare_step(LayoutQuestion& asked, CLI::App& command);

/// Declares --kernels, whose file fills `file`, and returns it. `file` must outlive the command.
CLI::Option* declare_kernels(std::string& file, CLI::App& command);

}  // namespace orrery::cli
