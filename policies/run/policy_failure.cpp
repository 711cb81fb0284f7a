#include "policies/run/policy_failure.hpp"

#include <cstdint>

#include <fmt/format.h>

namespace orrery {

std::string policy_failure(const std::exception& error) {
  const auto* own = dynamic_cast<const Error*>(&error);
  if (own == nullptr || !own->source_place()) {
    return fmt::format("the policy failed: {}", own == nullptr ? error.what() : own->message());
  }
  const SourcePlace& place = *own->source_place();
  return fmt::format("the policy failed: {}:{}: {}", place.file, place.line, own->message());
}

Failure failure_record(const Error& error) {
  Failure failure;
  failure.set_kind(static_cast<std::uint32_t>(error.kind()));
  failure.set_message(error.message());
  if (error.source_place()) {
    failure.set_file(error.source_place()->file);
    failure.set_line(error.source_place()->line);
    failure.set_column(error.source_place()->column);
    failure.set_line_text(error.source_place()->line_text);
  }
  return failure;
}

void throw_failure(const Failure& failure) {
  if (!failure.file().empty()) {
    throw Error(SourcePlace{failure.file(), failure.line(), failure.column(), failure.line_text()},
                failure.message());
  }
  const bool known = failure.kind() >= 1 && failure.kind() <= 5;
  throw Error(known ? static_cast<ErrorKind>(failure.kind()) : ErrorKind::internal,
              failure.message());
}

}  // namespace orrery
