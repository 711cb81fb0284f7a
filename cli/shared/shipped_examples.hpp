// Scenarios that Orrery ships, by name instead of by path. Single-threaded.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace orrery::cli {

/// Shipped scenario.
struct Example {
  std::string name;   ///< path in the folder of examples, without ".yaml": "compare/plain"
  std::string about;  ///< its description, or the first line of its comment
};

/// Returns all shipped scenarios by name; empty if the folder of examples is missing.
std::vector<Example> shipped_examples();

/// Returns the path of the shipped scenario with the name `given`; `given` itself if it is the path
/// of a file, or can only be a path: it is absolute or has an extension. Throws bad_input with the
/// nearest name for any other text.
std::string example_path(const std::string& given);

/// Lets the option accept names of shipped scenarios as well as files. Returns the option.
CLI::Option& or_example(CLI::Option& option);

}  // namespace orrery::cli
