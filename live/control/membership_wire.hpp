// The control core's messages on the wire. Thread-safe.
#pragma once

#include "live/control.pb.h"
#include "policies/membership/protocol.hpp"

namespace orrery::live {

MemberStatus to_wire(const membership::Status& status);
membership::Status from_wire(const MemberStatus& status);
MemberDirective to_wire(const membership::Directive& directive);
membership::Directive from_wire(const MemberDirective& directive);

}  // namespace orrery::live
