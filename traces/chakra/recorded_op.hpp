// Phases and collectives of the operations of a recorded step (RecordedOp), as values. Used by the
// reader of recordings and by the step graph. Pure functions; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/schema/names.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Part of a step to which a recorded operation belongs (RecordedOp.phase).
enum class RecordedPhase : std::uint8_t { forward, backward, update };
constexpr std::array<std::string_view, 3> names_of(RecordedPhase) {
  return {"forward", "backward", "update"};
}

/// Kind of a recorded collective (RecordedOp.collective). none: the operation consists of kernels.
enum class RecordedCollective : std::uint8_t {
  none, all_reduce, reduce_scatter, all_gather, all_to_all
};
constexpr std::array<std::string_view, 5> names_of(RecordedCollective) {
  return {"", "all_reduce", "reduce_scatter", "all_gather", "all_to_all"};
}

/// Returns the phase of an operation; forward if the operation names none. Throws as named().
inline RecordedPhase phase_of(const RecordedOp& op) {
  return named(op.phase(), std::optional(RecordedPhase::forward));
}
/// Returns the collective of an operation. Throws as named().
inline RecordedCollective collective_of(const RecordedOp& op) {
  return named<RecordedCollective>(op.collective());
}

}  // namespace orrery
