// Which ranks of an execution trace can be simulated as one, and who talks to whom. Two ranks are
// of one class if they run the same program, meet the same classes at the same calls, and stand
// alike in the cluster (how a communicator spreads over nodes, what lies between two peers): the
// coarsest such partition, found by refinement, in which every class goes through its program in
// lockstep. Called by the simulator; needs no engine. Thread-safe: no state.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "topologies/cluster.hpp"
#include "traces/chakra/chakra_trace.hpp"

namespace orrery {

struct TraceClass {
  std::uint32_t program = 0;
  std::vector<std::uint32_t> members;  ///< ranks, ascending
};

/// An op of a class.
struct ClassOp {
  std::uint32_t of_class = 0, op = 0;
  friend auto operator<=>(const ClassOp&, const ClassOp&) = default;
};

/// One collective that several equal groups carry out at once.
struct FoldedCollective {
  std::uint32_t team = 0;          ///< index into FoldedTrace::teams
  ChakraCollective kind{};
  std::uint64_t bytes = 0;         ///< the most that a member says
  std::vector<ClassOp> ops;        ///< of all classes that take part, each once
};

/// One message that all members of a class send at once.
struct FoldedSend {
  ClassOp from, to;
  std::uint64_t bytes = 0;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;  ///< (sender, receiver) ranks
};

struct FoldedTrace {
  std::vector<TraceClass> classes;
  std::vector<std::uint32_t> class_of;             ///< by rank
  std::vector<std::vector<std::uint32_t>> teams;   ///< groups (of ChakraTrace) that act alike
  std::vector<FoldedCollective> collectives;
  std::vector<FoldedSend> sends;
  std::vector<std::string> warnings;
};

/// `apart`: every rank a class of its own. Rank r stands on GPU r. Throws bad_input that names
/// ranks and nodes if calls of a communicator's members do not match or a message has no receiver.
FoldedTrace fold_trace(const ChakraTrace& trace, const Cluster& cluster, bool apart);

}  // namespace orrery
