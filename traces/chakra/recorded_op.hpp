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

/// Kind of a recorded collective or message (RecordedOp.collective). none: the operation consists
/// of kernels.
enum class RecordedCollective : std::uint8_t {
  none,
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  send,
  receive
};
constexpr std::array<std::string_view, 7> names_of(RecordedCollective) {
  return {"", "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "send", "receive"};
}

/// Returns the phase of an operation; forward if the operation names none. Throws as named().
inline RecordedPhase phase_of(const RecordedOp& op) {
  return named(op.phase(), std::optional(RecordedPhase::forward));
}
/// Returns the collective of an operation. Throws as named().
inline RecordedCollective collective_of(const RecordedOp& op) {
  return named<RecordedCollective>(op.collective());
}
/// Returns true for a message between stages. Throws as named().
inline bool is_message(const RecordedOp& op) {
  const RecordedCollective collective = collective_of(op);
  return collective == RecordedCollective::send || collective == RecordedCollective::receive;
}

/// Operations of a stage of a recorded step, in order.
using RecordedOps = google::protobuf::RepeatedPtrField<RecordedOp>;
/// Returns the number of stages of a recorded step, at least 1.
inline std::uint32_t stages_of(const RecordedStep& step) {
  return 1 + static_cast<std::uint32_t>(step.stages_size());
}
/// Returns the operations of a stage, which must be below stages_of() (not checked).
inline const RecordedOps& ops_of(const RecordedStep& step, std::uint32_t stage) {
  return stage == 0 ? step.ops() : step.stages(static_cast<int>(stage) - 1).ops();
}
/// Returns the bytes of the gradients of one rank of a stage, which must be below stages_of() (not
/// checked); 0 in a measured recording.
inline double gradient_bytes_of(const RecordedStep& step, std::uint32_t stage) {
  return stage == 0 ? step.gradient_bytes()
                    : step.stages(static_cast<int>(stage) - 1).gradient_bytes();
}

}  // namespace orrery
