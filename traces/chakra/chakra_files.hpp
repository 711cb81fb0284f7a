// Reader of the files of a Chakra trace: PREFIX.0.et, PREFIX.1.et, ... (each may be packed with
// gzip or xz) and PREFIX.json with the communicator groups; or one tar archive with these files,
// packed or not, which is read as a stream and never unpacked to disk. Called by chakra_reader.hpp.
// The file of one rank is in memory at a time. Thread-safe: no state.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace orrery {

/// Callbacks that receive the files of a trace; both must be set. Their exceptions pass through.
struct ChakraFileSink {
  /// Called for each rank, in the order of ranks, or in the order of the archive. `bytes` are
  /// unpacked and valid until the call returns.
  std::function<void(std::uint32_t rank, const std::string& file, std::string_view bytes)> rank;
  /// Called at most once, after all ranks.
  std::function<void(const std::string& file, std::string_view json)> groups;
};

/// Passes the files of a trace to `sink`. `path`: prefix of the files, or an archive.
/// `groups_file`: file that replaces the trace's own groups, or empty. Throws bad_input with the
/// name of a file that is missing, damaged or too large; ranks may have been passed by then.
void read_chakra_files(const std::string& path, const std::string& groups_file,
                       const ChakraFileSink& sink);

}  // namespace orrery
