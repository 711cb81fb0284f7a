#include "policies/record/log_format.hpp"

#include <fmt/format.h>

namespace orrery {

std::optional<std::string> log_format_problem(const LogHeader& header) {
  const std::uint32_t found = header.format();
  if (found >= kOldestLogFormat && found <= kLogFormat) return {};
  return fmt::format(
      "expected log format {} or {}, found format {}; read the log with the orrery that wrote "
      "it{}{}, "
      "or {}",
      kOldestLogFormat, kLogFormat, found, header.version().empty() ? "" : ", ", header.version(),
      found > kLogFormat ? "with a newer one" : "record the run again");
}

void convert_record(LogRecord& record, std::uint32_t format) {
  if (format == kLogFormat) return;
  if (record.has_header()) record.mutable_header()->set_format(kLogFormat);
  if (record.has_call()) record.mutable_call()->clear_state_digest();
}

}  // namespace orrery
