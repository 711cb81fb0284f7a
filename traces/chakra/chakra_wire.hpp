// One rank's file of a Chakra trace, from bytes to operations. Reads the wire format of protobuf
// itself and skips what a simulation does not need (names, shapes, tensors: nine tenths of a file),
// because building message objects for a trace of hundreds of megabytes costs more than simulating
// it. Called by chakra_reader.hpp. Thread-safe: no state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "traces/chakra/chakra_trace.hpp"

namespace orrery {

/// A communicator that a METADATA node defines; no ranks: all.
struct NamedGroup {
  std::string name;
  std::vector<std::uint32_t> ranks;
};

/// A file, nothing yet resolved that needs another file or a later node.
struct ParsedRank {
  std::vector<TraceOp> ops;               ///< `slot`: into group_names or peers
  std::uint64_t first_id = 0;             ///< the least node id; ids here are above it
  std::vector<std::uint64_t> after_ids;   ///< (mod 2^64) that each op waits for; op after op
  std::vector<std::string> group_names;   ///< in the order of first use
  std::vector<std::uint64_t> peers;       ///< likewise
  std::vector<std::int64_t> tags;         ///< of sends and receives
  std::vector<NamedGroup> groups;
};

/// Replaces `into` (whose memory is used again). Throws bad_input with the file and, as column, the
/// byte after which it stops making sense: cut short, not Chakra 0.0.4 to 1, a node that lacks an
/// attribute or has one of a wrong type, a collective that is not supported.
void parse_chakra_rank(const std::string& file, std::string_view bytes, ParsedRank& into);

/// A communicator's name for a list in JSON of {"pg_name": ..., "ranks": [...]}, as METADATA nodes
/// hold it. Throws bad_input.
std::vector<NamedGroup> groups_in_json(const std::string& file, std::string_view json);

}  // namespace orrery
