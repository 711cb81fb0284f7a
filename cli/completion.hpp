// What a shell is told so that Tab completes commands, options and the values of options. Made
// from the declared command line itself, so it cannot lag behind. Called by main() only.
#pragma once

#include <functional>
#include <string>

#include <CLI/App.hpp>

namespace orrery::cli {

/// `shell`: bash, zsh or fish.
std::string completion_script(const CLI::App& app, const std::string& shell);

/// To be called after all others: it completes what was declared.
void add_completion(CLI::App& app, std::function<int()>& chosen);

}  // namespace orrery::cli
