// Files of software stacks that `orrery calibrate --runs` has fitted to measured runs of one's own.
// Called by --stack of the commands. Thread-safe: no state between calls.
#pragma once

#include <string>

#include "traces/scenario.pb.h"

namespace orrery {

/// Returns the one stack of a file, with defaults. Throws bad_input with the place for a file that
/// cannot be read, another number of stacks, a name that a shipped stack has, and a `kin` that is
/// no shipped stack.
SoftwareStack load_own_stack(const std::string& path);

/// Returns true for a stack that is based on a shipped one (`kin`) without being one itself.
bool is_own(const SoftwareStack& stack);

/// Returns true if `name` is that of a file and of no shipped stack.
bool names_own_stack(const std::string& name);

}  // namespace orrery
