// What can be named in a scenario or on the command line, each with one line about it: models,
// clusters, GPUs, stacks, policies. Called by `orrery list` and orrery.names(). Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace orrery {

struct KnownName {
  std::string name, about;
};

/// "models", "clusters", ...
std::vector<std::string> kinds_of_names();

/// Throws a usage Error with the nearest kind.
std::vector<KnownName> known_names(std::string_view kind);

}  // namespace orrery
