// Reader of Chakra execution traces (MLCommons, versions 0.0.4 to 1). Ranks whose programs differ
// only in their peers and communicators share one program as soon as their files are read: a trace
// of a thousand ranks needs only the memory of its few different programs. Called by the simulator
// and by `orrery import`. One thread per reader.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "traces/chakra/chakra_trace.hpp"

namespace orrery {

/// Location of a trace.
struct ChakraInput {
  std::string path;         ///< prefix (PREFIX.0.et, ...) or tar archive
  std::string groups = {};  ///< file with the communicator groups, if not the trace's own
  std::uint32_t ranks = 0;  ///< 0: one for each file; else a single file serves all ranks
};

/// Returns the trace. Throws bad_input, with the file and the byte or node, for the errors of
/// parse_chakra_rank(), duplicate ids, cycles of data dependencies, undefined communicators and
/// missing peers. Drops dependencies on missing nodes and, if control dependencies form cycles,
/// those that contradict the order of the data; adds a warning to the trace for each kind.
ChakraTrace read_chakra(const ChakraInput& input);

/// Reader of a trace from memory, file by file.
class ChakraFolder {
 public:
  /// Constructs a reader without ranks. `name`: name of the trace in messages.
  explicit ChakraFolder(std::string name);
  ~ChakraFolder();
  ChakraFolder(const ChakraFolder&) = delete;
  ChakraFolder& operator=(const ChakraFolder&) = delete;

  /// Adds the file of one rank. `file` is the name in messages; `bytes` need not outlive the call.
  /// Throws bad_input for an invalid file or a rank that was added before.
  void add_rank(std::uint32_t rank, const std::string& file, std::string_view bytes);
  /// Adds the communicator groups of a JSON file, before or after the ranks. Throws bad_input for
  /// an invalid file or a group that is defined twice.
  void set_groups(const std::string& file, std::string_view json);
  /// Returns the trace and leaves none behind. Call once, after all ranks; `ranks` as in
  /// ChakraInput. Throws bad_input as read_chakra() does, also without ranks, for a missing rank
  /// number, or if `ranks` is neither 0 nor the number of files, unless there is one file.
  ChakraTrace finish_trace(std::uint32_t ranks = 0);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace orrery
