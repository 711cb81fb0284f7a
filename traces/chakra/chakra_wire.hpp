// Parser of one rank's file of a Chakra trace, from bytes to operations. Reads protobuf's wire
// format itself and skips the parts that a simulation does not need (names, shapes, tensors: nine
// tenths of a file), because message objects for a trace of hundreds of megabytes cost more than
// its simulation. Called by chakra_reader.hpp. Thread-safe: no state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "traces/chakra/chakra_trace.hpp"

namespace orrery {

/// Communicator that a METADATA node or a JSON file defines. No ranks means all ranks.
struct NamedGroup {
  std::string name;
  std::vector<std::uint32_t> ranks;
};

/// Parsed file of one rank. References to other files and to later nodes are not resolved.
struct ParsedRank {
  std::vector<TraceOp> ops;               ///< `slot`: index into group_names or peers
  std::uint64_t first_id = 0;             ///< smallest node id; ids here are relative to it
  /// Node ids of the dependencies, relative to first_id (mod 2^64); operation after operation.
  std::vector<std::uint64_t> after_ids;
  std::vector<std::string> group_names;   ///< names in the order of their first use
  std::vector<std::uint64_t> peers;       ///< peers in the order of their first use
  std::vector<std::int64_t> tags;         ///< tags of sends and receives
  std::vector<NamedGroup> groups;
};

/// Parses a file into `into`, whose memory is reused. Throws bad_input with the file and, as
/// column, the byte after which it is invalid: truncated, not Chakra 0.0.4 to 1, a missing
/// attribute or one of a wrong type, an unsupported collective.
void parse_chakra_rank(const std::string& file, std::string_view bytes, ParsedRank& into);

/// Returns the communicators of a JSON text: a list of {"pg_name": ..., "ranks": [...]}, as
/// METADATA nodes contain it, or an object with a list of ranks for each name. Skips entries of a
/// list without a name. Throws bad_input for other JSON or an invalid rank.
std::vector<NamedGroup> groups_in_json(const std::string& file, std::string_view json);

}  // namespace orrery
