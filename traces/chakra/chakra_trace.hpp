// An execution trace in memory: what every rank does, in programs that equal ranks share. Made by
// chakra_reader.hpp, executed by sim/estimates/step/trace_run.hpp, also for a single collective.
// Immutable after building; thread-safe. Bytes, operations, nanoseconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace orrery {

/// Ranks and peers are below this, so that damaged numbers are noticed.
inline constexpr std::uint32_t kMostChakraRanks = 1u << 20;

enum class TraceOpKind : std::uint8_t { none, compute, memory, send, receive, collective };

/// The numbers are Chakra's.
enum class ChakraCollective : std::uint8_t {
  all_reduce, reduce, all_gather, gather, scatter, broadcast, all_to_all, reduce_scatter,
  reduce_scatter_block, barrier
};

/// One node. Which communicator or peer it talks to is a number of the rank's own list, so that
/// ranks with other peers can share the program.
struct TraceOp {
  std::uint64_t id = 0;           ///< above the rank's first_id; of two, the lower starts first
  std::uint64_t flop = 0;         ///< compute: operations; 0: not known
  std::uint64_t bytes = 0;        ///< compute: through memory; else as Chakra counts comm_size
  std::uint64_t duration_ns = 0;  ///< as recorded; 0: not recorded
  std::uint32_t slot = 0;         ///< index into the rank's groups (collective) or peers
  std::uint32_t after_end = 0;    ///< its dependencies end here in RankProgram::after ...
  std::uint32_t controls = 0;     ///< ... and so many of the last are control dependencies
  TraceOpKind kind{};
  ChakraCollective collective{};
  bool cpu = false;               ///< runs on the host, for duration_ns
  friend bool operator==(const TraceOp&, const TraceOp&) = default;
};

struct RankProgram {
  std::vector<TraceOp> ops;          ///< in the order of the file
  std::vector<std::uint32_t> after;  ///< ops, by index, that must end first; op after op
};

struct TraceRank {
  std::uint32_t program = 0;
  std::uint64_t first_id = 0;         ///< the least node id of its file
  std::vector<std::uint32_t> groups;  ///< by slot: index into ChakraTrace::groups
  std::vector<std::uint32_t> peers;   ///< by slot: rank
  std::vector<std::int64_t> tags;     ///< of its sends and receives, in the order of the program
};

struct ChakraTrace {
  std::string name;                   ///< file or scenario, for messages
  std::vector<RankProgram> programs;
  std::vector<TraceRank> ranks;
  std::vector<std::vector<std::uint32_t>> groups;  ///< member ranks of each communicator
  std::vector<std::string> warnings;
  std::uint64_t nodes = 0;            ///< of all ranks
};

/// "ALL_GATHER".
const char* chakra_name(ChakraCollective collective);

}  // namespace orrery
