// Validation of the messages of the control plane. Both ends check each incoming message here, so
// that no later code meets a rank that does not exist or a plan that does not fit its members. The
// hello is checked by ControlServer. Thread-safe.
#pragma once

#include <cstdint>

#include "live/control.pb.h"
#include "live/membership/protocol.hpp"

namespace orrery::live {

/// Returns the fault of a message that the process `from` sent after its hello, in words; null if
/// the message is valid. For example, a status that names another rank than `from` is a fault, and
/// so is another hello.
const char* fault_of(const AgentMessage& message, const membership::Seat& from);

/// Returns the fault of a message that the controller of a run of `ranks` ranks sent to `rank`, in
/// words; null if the message is valid. The incarnation to which a directive is sent is not
/// checked.
const char* fault_of(const ControllerMessage& message, std::uint32_t rank, std::uint32_t ranks);

}  // namespace orrery::live
