// What a message of the control plane must fulfil before anybody acts on it: both ends check here
// what comes in, so that nothing behind the border meets a rank that does not exist or a plan that
// does not fit its members. The greeting is the server's affair. Thread-safe.
#pragma once

#include <cstdint>

#include "live/control.pb.h"
#include "policies/membership/protocol.hpp"

namespace orrery::live {

/// What is wrong with what the process in this seat says, in words; nothing: it may be acted on.
const char* fault_of(const AgentMessage& message, const membership::Seat& from);

/// The same for what the controller of a run of `ranks` ranks says to `rank`.
const char* fault_of(const ControllerMessage& message, std::uint32_t rank, std::uint32_t ranks);

}  // namespace orrery::live
