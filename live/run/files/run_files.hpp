// Names of what stands in the folder of a live run, for those who look at a run from outside: the
// command line reads the status and leaves orders there. The folder is its user's alone.
#pragma once

#include <string_view>

namespace orrery::live {

// Not under the user's choice of folder: a socket's name holds at most 107 bytes.
inline constexpr const char* kRunParent = "/tmp";
inline constexpr const char* kRunPrefix = "orrery-live-";
/// What makes it a run's folder: its name alone says nothing.
inline constexpr const char* kRunMarker = ".orrery-live-run";
inline constexpr std::string_view kRunMarked =
    "folder of one run of orrery live; it goes away with the run\n";
/// JSON, replaced about once a second.
inline constexpr const char* kStatusFile = "status.json";
/// Touched by whoever is attached whenever they look: a run that ends waits until they have looked
/// once more.
inline constexpr const char* kAttachedFile = "attached";
inline constexpr int kLookMs = 250;  ///< how often they do
/// Whoever makes it ends the run after the step under way; "checkpoint" in it: with one.
inline constexpr const char* kStopFile = "stop";
/// What `unfinished` says where an operator has ended the run.
inline constexpr std::string_view kStoppedByOperator = "stopped by the operator";
/// What it ends with where too many ranks were lost at once: their state, and that of their copies.
inline constexpr std::string_view kStateGone = "is gone with the ranks that held it";
/// Any other order is a file of JSON (orders.hpp) whose name begins and ends like this.
inline constexpr std::string_view kOrderPrefix = "order-", kOrderSuffix = ".json";

}  // namespace orrery::live
