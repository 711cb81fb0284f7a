// Version and size limits of the control protocol.
#pragma once

#include <cstdint>

namespace orrery::live {

/// Version of the control protocol; the controller refuses agents of another version.
inline constexpr std::uint32_t kProtocol = 5;

/// Largest message of the control plane in bytes. For example, a scenario with two hundred thousand
/// faults takes 8 MiB; no other message is nearly as large.
inline constexpr int kMostControlBytes = 16 << 20;

}  // namespace orrery::live
