// Execution trace in memory: the operations of every rank, in programs that equal ranks share.
// Built by chakra_reader.hpp, executed by sim/estimates/step/trace_run.hpp, which also executes a
// single collective as a trace. Immutable after construction; thread-safe. Bytes, floating-point
// operations, nanoseconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace orrery {

/// Upper limit of rank and peer numbers, which detects damaged files.
inline constexpr std::uint32_t kMostChakraRanks = 1u << 20;

/// Kinds of operations. `none`: only an end point of dependencies.
enum class TraceOpKind : std::uint8_t { none, compute, memory, send, receive, collective };

/// Collectives with Chakra's numbers.
enum class ChakraCollective : std::uint8_t {
  all_reduce, reduce, all_gather, gather, scatter, broadcast, all_to_all, reduce_scatter,
  reduce_scatter_block, barrier
};

/// Node of a program. Communicator and peer are indices into the rank's own lists, so that ranks
/// with other peers can share the program.
struct TraceOp {
  /// Node id minus the rank's first_id. Of two ready nodes the smaller id starts first.
  std::uint64_t id = 0;
  std::uint64_t flop = 0;         ///< compute: operations; 0: not known
  std::uint64_t bytes = 0;        ///< compute: bytes through memory; else Chakra's comm_size
  std::uint64_t duration_ns = 0;  ///< recorded duration; 0: not recorded
  std::uint32_t slot = 0;         ///< index into the rank's groups (collective) or peers
  std::uint32_t after_end = 0;    ///< end of the dependencies in RankProgram::after
  std::uint32_t controls = 0;     ///< number of control dependencies, the last before after_end
  TraceOpKind kind{};
  ChakraCollective collective{};
  bool cpu = false;               ///< true: runs on the host, for duration_ns
  friend bool operator==(const TraceOp&, const TraceOp&) = default;
};

/// Program that equal ranks share.
struct RankProgram {
  std::vector<TraceOp> ops;          ///< operations in the order of the file
  std::vector<std::uint32_t> after;  ///< dependencies by index; operation after operation
};

/// Rank with its program and its lists.
struct TraceRank {
  std::uint32_t program = 0;
  std::uint64_t first_id = 0;         ///< smallest node id of its file
  std::vector<std::uint32_t> groups;  ///< indexed by slot: index into ChakraTrace::groups
  std::vector<std::uint32_t> peers;   ///< indexed by slot: rank
  std::vector<std::int64_t> tags;  ///< tags of its sends and receives, in the order of the program
};

/// Execution trace of all ranks.
struct ChakraTrace {
  std::string name;                   ///< file or scenario, for messages
  std::vector<RankProgram> programs;
  std::vector<TraceRank> ranks;
  std::vector<std::vector<std::uint32_t>> groups;  ///< member ranks of each communicator
  std::vector<std::string> warnings;
  std::uint64_t nodes = 0;            ///< nodes of all ranks
};

/// Returns the name of a collective, for example "ALL_GATHER".
const char* chakra_name(ChakraCollective collective);

}  // namespace orrery
