// Warnings of a live run on standard error. Thread-safe.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include <fmt/format.h>

namespace orrery::live {

/// Prints a line "orrery-live: warning: WHAT" on standard error, unless standard error is a pipe
/// whose reader does not read: the run does not wait for the reader.
inline void print_warning(const std::string& what) {
  pollfd reader{STDERR_FILENO, POLLOUT, 0};
  if (poll(&reader, 1, 0) == 0) return;
  fmt::print(stderr, "orrery-live: warning: {}\n", what);
}

}  // namespace orrery::live
