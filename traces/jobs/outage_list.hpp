// Nodes that are down, planned or not: CSV with the columns node, begin_s, end_s and perhaps cause.
// Called by the replay of job logs. Thread-safe. Seconds from the first submission of the log.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

struct Outage {
  std::uint32_t node = 0;
  std::int64_t begin_s = 0, end_s = 0;
  bool planned = false;  ///< cause "maintenance": jobs save what they have done before it
};

/// In file order, of a cluster of so many nodes. Throws bad_input with file:line:column.
std::vector<Outage> load_outages(const std::string& path, std::uint32_t nodes);
/// The same of a text that has been read; `path` is for messages.
std::vector<Outage> parse_outages(const std::string& path, std::string_view text,
                                  std::uint32_t nodes);

}  // namespace orrery
