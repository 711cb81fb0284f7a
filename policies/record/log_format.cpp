#include "policies/record/log_format.hpp"

#include <vector>

#include <fmt/format.h>

#include "core/schema/moved_keys.hpp"
#include "policies/record/encoding.hpp"

namespace orrery {
namespace {

/// Replaces samples by row, of formats before 4, by columns.
void convert_samples(CallRecord& call) {
  std::vector<SamplesRead> reads;
  for (const SamplesRead& read : call.read()) {
    for (SamplesRead& each : columns_of_rows(read)) reads.push_back(std::move(each));
  }
  call.mutable_read()->Assign(reads.begin(), reads.end());
}

}  // namespace

std::optional<std::string> log_format_problem(const LogHeader& header) {
  const std::uint32_t found = header.format();
  if (found >= kOldestLogFormat && found <= kLogFormat) return {};
  return fmt::format(
      "expected log format {} to {}, found format {}; read the log with the orrery that wrote "
      "it{}{}, "
      "or {}",
      kOldestLogFormat, kLogFormat, found, header.version().empty() ? "" : ", ", header.version(),
      found > kLogFormat ? "with a newer one" : "record the run again");
}

void convert_record(LogRecord& record, std::uint32_t format) {
  if (record.header().has_scenario()) convert_stored(*record.mutable_header()->mutable_scenario());
  if (format == kLogFormat) return;
  if (record.has_header()) record.mutable_header()->set_format(kLogFormat);
  if (!record.has_call()) return;
  if (format < 4) convert_samples(*record.mutable_call());
  if (!has_comparable_digests(format)) record.mutable_call()->clear_state_digest();
}

}  // namespace orrery
