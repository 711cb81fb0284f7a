#include "cli/shared/log_note.hpp"

#include <cstdio>

#include <fmt/format.h>

#include "policies/record/log_format.hpp"

namespace orrery::cli {

void print_log_note(const std::string& file, const LogHeader& header) {
  if (const auto note = newer_log_note(header)) fmt::print(stderr, "note: {} {}\n", file, *note);
}

}  // namespace orrery::cli
