// Where the files of a Chakra trace are: PREFIX.0.et, PREFIX.1.et, ... (each may be packed with
// gzip or xz) and PREFIX.json with the communicator groups; or all of them in one tar archive,
// packed or not, which is read as a stream and never unpacked to disk. Called by chakra_reader.hpp.
// One file of one rank is in memory at a time. Thread-safe: no state.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace orrery {

struct ChakraFileSink {
  /// In the order of ranks, or of the archive. `bytes` live until the call returns.
  std::function<void(std::uint32_t rank, const std::string& file, std::string_view bytes)> rank;
  /// At most once, after all ranks.
  std::function<void(const std::string& file, std::string_view json)> groups;
};

/// `path`: prefix, or an archive (a file). `groups_file`: instead of the trace's own, or empty.
/// Throws bad_input that names the file which is missing, damaged or too large.
void read_chakra_files(const std::string& path, const std::string& groups_file,
                       const ChakraFileSink& sink);

}  // namespace orrery
