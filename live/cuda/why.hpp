// How the module's C functions report: they return 0, or 1 after they have kept what went wrong for
// their thread. Nothing may be thrown through them.
#pragma once

#include <exception>
#include <string>

namespace orrery::live::gpu {

/// What went wrong last in this thread.
inline std::string& why() {
  thread_local std::string text;
  return text;
}

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
