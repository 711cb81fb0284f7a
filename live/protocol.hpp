// The version of the control protocol (agents of another one are turned away), and how large its
// messages may be.
#pragma once

#include <cstdint>

namespace orrery::live {

inline constexpr std::uint32_t kProtocol = 4;

/// A scenario with a hundred thousand faults has 4 MiB; nothing else comes near.
inline constexpr int kMostControlBytes = 16 << 20;

}  // namespace orrery::live
