// Catalog of the names that scenarios and command lines can use: models, clusters, GPUs, software
// stacks, policies. Called by `orrery list` and orrery.names(). Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// Name with a description of one line.
struct KnownName {
  std::string name, about;
};

/// Returns the kinds of names: "models", "clusters", ...
std::vector<std::string> kinds_of_names();

/// Returns the names of one kind, each with its description. Throws a usage Error with the nearest
/// kind for an unknown kind.
std::vector<KnownName> known_names(std::string_view kind);

}  // namespace orrery
