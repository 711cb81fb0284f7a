// Names that a scenario or the command line can use, each with one line about it: models, clusters,
// GPUs, stacks, policies. Called by `orrery list` and orrery.names(). Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// Name with a line of description.
struct KnownName {
  std::string name, about;
};

/// Returns the kinds of names: "models", "clusters", ...
std::vector<std::string> kinds_of_names();

/// Returns the names of one kind. Throws a usage Error with the nearest kind.
std::vector<KnownName> known_names(std::string_view kind);

}  // namespace orrery
