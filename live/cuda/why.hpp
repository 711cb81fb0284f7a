// Errors of the module's C functions: they return 0, or 1 after storing the message for their
// thread. No exception may leave them.
#pragma once

#include <exception>
#include <string>

namespace orrery::live::gpu {

/// Newest error message of this thread; empty before the first. A success does not clear it.
inline std::string& why() {
  thread_local std::string text;
  return text;
}

/// Runs `action`, which throws nothing but std::exceptions. Returns 0, or 1 after storing the
/// message of the exception.
template <class Action>
int guarded(const Action& action) {
  try {
    action();
    return 0;
  } catch (const std::exception& problem) {
    why() = problem.what();
  }
  return 1;
}

}  // namespace orrery::live::gpu
