// Reads Chakra execution traces (MLCommons, versions 0.0.4 to 1). Ranks whose programs are equal
// but for whom they talk to are held once, from the moment their file is read: a trace of a
// thousand ranks needs the memory of its few different programs. Called by the simulator and by
// `orrery import`. One thread per reader.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "traces/chakra/chakra_trace.hpp"

namespace orrery {

struct ChakraInput {
  std::string path;         ///< prefix (PREFIX.0.et, ...) or tar archive
  std::string groups = {};  ///< file with the communicator groups, if not the trace's own
  std::uint32_t ranks = 0;  ///< 0: as many as there are files; else, one file serves all ranks
};

/// Throws bad_input with the file and byte or node: see parse_chakra_rank(); also for duplicate
/// ids, cycles, communicators that nobody defines, peers that do not exist. Dependencies on nodes
/// that a file does not have are dropped with a warning in the trace.
ChakraTrace read_chakra(const ChakraInput& input);

/// The same from memory, file by file.
class ChakraFolder {
 public:
  explicit ChakraFolder(std::string name);
  ~ChakraFolder();
  ChakraFolder(const ChakraFolder&) = delete;
  ChakraFolder& operator=(const ChakraFolder&) = delete;

  void add_rank(std::uint32_t rank, const std::string& file, std::string_view bytes);
  void set_groups(const std::string& file, std::string_view json);
  /// Once, after all ranks; `ranks` as in ChakraInput.
  ChakraTrace finish(std::uint32_t ranks = 0);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace orrery
