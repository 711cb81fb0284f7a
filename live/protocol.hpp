// The version of the control protocol; agents of another one are turned away.
#pragma once

#include <cstdint>

namespace orrery::live {

inline constexpr std::uint32_t kProtocol = 2;

}  // namespace orrery::live
