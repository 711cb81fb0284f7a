// Conversion of the control core's messages to and from their wire form. Thread-safe.
#pragma once

#include "live/control.pb.h"
#include "live/membership/protocol.hpp"

namespace orrery::live {

/// Returns the wire form of a member's status; the caller adds the address.
MemberStatus to_wire(const membership::Status& status);
/// Returns the member's status that the wire form holds.
membership::Status from_wire(const MemberStatus& status);
/// Returns the wire form of a directive; the caller adds the addresses and the plan.
MemberDirective to_wire(const membership::Directive& directive);
/// Returns the directive that the wire form holds.
membership::Directive from_wire(const MemberDirective& directive);

}  // namespace orrery::live
