// Messages by which a rank reports an error to its controller. Pure functions, thread-safe.
#pragma once

#include <exception>
#include <string>

#include "core/error.hpp"
#include "live/control.pb.h"

namespace orrery::live {

/// Returns the report of an error that every rank would meet.
AgentMessage make_failure(ErrorKind kind, const std::string& reason);
/// Returns the report of any error of the step loop; `error` is not null. Marks as local a lack of
/// memory and environment Errors, except PaceMissed and StateLost; marks StateLost as the loss of
/// state that no remaining rank holds. Other exceptions than Errors are reported as internal ones.
AgentMessage failure_of(const std::exception_ptr& error);

}  // namespace orrery::live
