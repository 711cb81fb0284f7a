// The version of the control protocol (agents of another one are turned away), and how large its
// messages may be.
#pragma once

#include <cstdint>

namespace orrery::live {

inline constexpr std::uint32_t kProtocol = 5;

/// A scenario with two hundred thousand faults has 8 MiB; nothing else comes near.
inline constexpr int kMostControlBytes = 16 << 20;

}  // namespace orrery::live
