// Manual pages in roff, one for the program and one for each command. Generated from the declared
// command line, so that pages and help texts agree. Called by `orrery help` on one thread.
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>

namespace orrery::cli {

/// Returns the name of an option in help texts and pages, for example "-o, --out FILE"; the name
/// alone of a positional.
std::string option_label(const CLI::Option& option, bool positional);

/// Returns the description of an option, with its default and "(required)".
std::string option_meaning(const CLI::Option& option, bool positional);

/// Manual page of section 1. Example: name "orrery-simulate", whose file is orrery-simulate.1.
struct ManPage {
  std::string name, text;
};

/// Returns the page of the program, then one for each command that the help shows. A command with
/// kinds (`import jobs`) has their options on its page.
std::vector<ManPage> man_pages(const CLI::App& app);

/// Writes the pages into `folder`, which is created if it is absent, and returns their number.
/// Throws an environment error if a file cannot be written.
std::size_t write_man_pages(const CLI::App& app, const std::string& folder);

}  // namespace orrery::cli
