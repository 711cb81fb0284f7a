// Equivalence classes of the ranks of an execution trace: the ranks of a class are simulated as
// one. Two ranks are in one class if they run the same program, communicate with the same classes
// at the same calls, and have equivalent places in the cluster (spread of a communicator over
// nodes, links between two peers). The partition is the coarsest of this kind, found by refinement;
// every class runs its program in lockstep. For example, 1,024 ranks of plain data parallelism are
// one class. Called by the simulator; needs no engine. Thread-safe: no state.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "topologies/cluster.hpp"
#include "traces/chakra/chakra_trace.hpp"

namespace orrery {

/// Class of equal ranks.
struct TraceClass {
  std::uint32_t program = 0;
  std::vector<std::uint32_t> members;  ///< ranks, ascending
};

/// Operation of a class: index of the class, and index of the operation in its program.
struct ClassOp {
  std::uint32_t of_class = 0, op = 0;
  friend auto operator<=>(const ClassOp&, const ClassOp&) = default;
};

/// Collective that several equal groups execute at once.
struct FoldedCollective {
  std::uint32_t team = 0;          ///< index into FoldedTrace::teams
  ChakraCollective kind{};
  std::uint64_t bytes = 0;         ///< maximum over the members
  std::vector<ClassOp> ops;        ///< operations of all participating classes, each once
};

/// Message that all members of a class send at once.
struct FoldedSend {
  ClassOp from, to;
  std::uint64_t bytes = 0;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;  ///< (sender, receiver) ranks
};

/// Execution trace by classes of ranks.
struct FoldedTrace {
  std::vector<TraceClass> classes;
  std::vector<std::uint32_t> class_of;             ///< indexed by rank
  std::vector<std::vector<std::uint32_t>> teams;   ///< groups (of ChakraTrace) with equal behaviour
  std::vector<FoldedCollective> collectives;
  std::vector<FoldedSend> sends;
  std::vector<std::string> warnings;
};

/// Returns the trace by classes, with rank r on GPU r. `apart`: every rank is a class of its own.
/// Throws bad_input if the trace has more ranks than the cluster has GPUs, and, with ranks and
/// nodes, if the calls of a communicator's members do not match, a message has no counterpart, or
/// its sizes differ. Members with different sizes of one collective give a warning.
FoldedTrace fold_trace(const ChakraTrace& trace, const Cluster& cluster, bool apart);

}  // namespace orrery
