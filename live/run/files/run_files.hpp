// Names of the files in the folder of a live run. The command line reads the status there and
// writes the operator's orders there. Only the run's user may enter the folder.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::live {

/// Environment variable with the parent of the folders: runs of different parents do not see each
/// other. All processes of a run have the same value.
inline constexpr const char* kRunParentVariable = "ORRERY_RUNS";
/// Longest path of a parent, in bytes: the path of a socket below the parent has at most 107.
inline constexpr std::size_t kLongestRunParent = 48;

/// Returns the parent of the folders: the value of ORRERY_RUNS, or "/tmp" if the variable is
/// missing or empty. Throws a usage Error if the value is no absolute path or too long.
inline std::string run_parent() {
  const char* const given = std::getenv(kRunParentVariable);
  const std::string parent = given == nullptr || *given == '\0' ? "/tmp" : given;
  if (parent.front() == '/' && parent.size() <= kLongestRunParent) return parent;
  throw Error(ErrorKind::usage,
              fmt::format("{}: expected an absolute path of at most {} bytes, because the paths of "
                          "sockets are short; found '{}'",
                          kRunParentVariable, kLongestRunParent, parent));
}

/// Parent of the folders in memory, for the checkpoints in memory of a run.
inline constexpr const char* kMemoryParent = "/dev/shm";

/// Beginning of every folder's name.
inline constexpr const char* kRunPrefix = "orrery-live-";
/// Marker file: only a folder with this file counts as the folder of a run.
inline constexpr const char* kRunMarker = ".orrery-live-run";
/// Content of the marker file.
inline constexpr std::string_view kRunMarked =
    "folder of one run of orrery live; it goes away with the run\n";
/// Status of the run as JSON, replaced about once a second.
inline constexpr const char* kStatusFile = "status.json";
/// File that each attached viewer touches on every look. A run that ends waits until the viewers
/// have looked once more.
inline constexpr const char* kAttachedFile = "attached";
inline constexpr int kLookMs = 250;  ///< Time between two looks, in milliseconds.
/// Order to stop: a file with this name ends the run after the current step; the content
/// "checkpoint" requests a final checkpoint.
inline constexpr const char* kStopFile = "stop";
/// Value of `unfinished` if an operator has stopped the run.
inline constexpr std::string_view kStoppedByOperator = "stopped by the operator";
/// End of `unfinished` if a training state is lost: the ranks that held it and its copies were lost
/// at once.
inline constexpr std::string_view kStateGone = "was lost with the ranks that held it";
/// Beginning of the line on the status board about an order that the run refuses.
inline constexpr std::string_view kOrderRefused = "an order is refused: ";
/// Beginning and end of the names of all other orders, which are JSON files (orders.hpp).
inline constexpr std::string_view kOrderPrefix = "order-", kOrderSuffix = ".json";

}  // namespace orrery::live
