// Outages of nodes, planned or not: CSV with the columns node, begin_s, end_s and optionally cause.
// Called by the replay of job logs. Thread-safe. Seconds from the first submission of the log.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// Outage of one node, from begin_s to end_s.
struct Outage {
  std::uint32_t node = 0;
  std::int64_t begin_s = 0, end_s = 0;
  bool planned = false;  ///< cause "maintenance": jobs save their work before it
};

/// Returns the outages of a file in file order, for a cluster of `nodes` nodes. Throws bad_input
/// with file:line:column for an unreadable or empty file, a missing column, a malformed number, an
/// unknown node, or an outage that does not end after its begin.
std::vector<Outage> load_outages(const std::string& path, std::uint32_t nodes);
/// Returns the outages of a text, none for a header alone; `path` is for messages. Throws as
/// load_outages() does.
std::vector<Outage> parse_outages(const std::string& path, std::string_view text,
                                  std::uint32_t nodes);

}  // namespace orrery
