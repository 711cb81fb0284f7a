// Version and size limits of the control protocol.
#pragma once

#include <cstdint>

namespace orrery::live {

/// Version of the control protocol; the controller refuses agents of another version.
inline constexpr std::uint32_t kProtocol = 5;

/// Largest message of the control plane in bytes. For example, a scenario with two hundred thousand
/// faults takes 8 MiB; no other message is nearly as large.
inline constexpr int kMostControlBytes = 16 << 20;

/// Exit code of `orrery-live join` if the run may go on and a new process has to join it.
inline constexpr int kJoinAgain = 7;

/// Reasons of a stop after which an agent on another machine joins again as a new process: the
/// first because the run may continue from a checkpoint.
inline constexpr const char* kStateIsLost = "the run has lost its training state";
inline constexpr const char* kCountsAsLost = "this process of the rank counts as lost";

}  // namespace orrery::live
