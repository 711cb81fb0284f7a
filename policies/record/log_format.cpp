#include "policies/record/log_format.hpp"

#include <vector>

#include <fmt/format.h>

#include "core/schema/moved_keys.hpp"
#include "policies/record/encoding.hpp"

namespace orrery {
namespace {

/// Unit of MINOR in the field `format` of a header.
constexpr std::uint32_t kMinorUnit = 1u << 16;

/// Replaces samples by row, of formats before 4, by columns.
void convert_samples(CallRecord& call) {
  std::vector<SamplesRead> reads;
  for (const SamplesRead& read : call.read()) {
    for (SamplesRead& each : columns_of_rows(read)) reads.push_back(std::move(each));
  }
  call.mutable_read()->Assign(reads.begin(), reads.end());
}

}  // namespace

FormatVersion log_format(const LogHeader& header) {
  return {header.format() % kMinorUnit, header.format() / kMinorUnit};
}

void set_log_format(LogHeader& header, FormatVersion version) {
  header.set_format(version.major + kMinorUnit * version.minor);
}

std::optional<std::string> log_format_problem(const LogHeader& header) {
  const FormatVersion found = log_format(header);
  if (found >= kOldestLogFormat && found.major <= kLogFormat.major) return {};
  return fmt::format(
      "expected log format {} to {}.x, found format {}; read the log with the orrery that wrote "
      "it{}{}, or {}",
      format_text(kOldestLogFormat), kLogFormat.major, format_text(found),
      header.version().empty() ? "" : ", ", header.version(),
      found > kLogFormat ? "with a newer one ('orrery --version' prints the version)"
                         : "record the run again");
}

std::optional<std::string> newer_log_note(const LogHeader& header) {
  const FormatVersion found = log_format(header);
  if (found <= kLogFormat) return {};
  return fmt::format(
      "has log format {}, this orrery knows {}: fields that it does not know have no effect",
      format_text(found), format_text(kLogFormat));
}

void convert_record(LogRecord& record, FormatVersion format) {
  if (record.header().has_scenario()) convert_stored(*record.mutable_header()->mutable_scenario());
  if (format >= kLogFormat) return;
  if (record.has_header()) set_log_format(*record.mutable_header(), kLogFormat);
  if (!record.has_call()) return;
  if (format.major < 4) convert_samples(*record.mutable_call());
  if (!has_comparable_digests(format)) record.mutable_call()->clear_state_digest();
}

}  // namespace orrery
