// Paths in the folder of a program's sockets by which its ranks and a successor of `orrery run`
// meet. Used by both sides (live/torch, live/programs). Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <string>

namespace orrery::live {

/// Returns the path of the socket at which a successor of `orrery run` listens.
inline std::string successor_socket(const std::string& folder) { return folder + "/successor"; }

/// Returns the path of the file with the exit code of a rank that has ended after the death of the
/// `orrery run` that started it: another process cannot learn the code from the system.
inline std::string exit_file(const std::string& folder, std::size_t rank) {
  return folder + "/exit." + std::to_string(rank);
}

}  // namespace orrery::live
