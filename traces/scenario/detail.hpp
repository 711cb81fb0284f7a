// Detail of a simulation, as options and RunRequest.full_detail choose it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/schema/names.hpp"

namespace orrery {

/// Detail of a simulation (RunRequest.full_detail): equal ranks and equal steps are simulated once,
/// or each for itself.
enum class Detail : std::uint8_t { folded, full };
constexpr std::array<std::string_view, 2> names_of(Detail) { return {"folded", "full"}; }

}  // namespace orrery
