// How an error of a rank is said to its controller. Pure functions, thread-safe.
#pragma once

#include <exception>
#include <string>

#include "core/error.hpp"
#include "live/control.pb.h"

namespace orrery::live {

/// What every rank would meet.
AgentMessage make_failure(ErrorKind kind, const std::string& reason);
/// Of any error of the step loop: says besides what only this process or its machine lacks, and
/// what nobody who is left holds any more.
AgentMessage failure_of(const std::exception_ptr& error);

}  // namespace orrery::live
