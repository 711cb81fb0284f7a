// Failures of policies and of runs: their text, and their record in messages between processes
// (Failure, traces/run.proto). Pure functions; thread-safe.
#pragma once

#include <exception>
#include <string>

#include "core/error.hpp"
#include "traces/run.pb.h"

namespace orrery {

/// Returns the text of a policy's failure that runs, reports and replays use: for an Error with a
/// place "the policy failed: FILE:LINE: message".
std::string policy_failure(const std::exception& error);

/// Returns the record of the error.
Failure failure_record(const Error& error);
/// Throws the error of the record: bad_input with the place if the record has a file, else an Error
/// of the record's kind; an unknown kind counts as internal.
[[noreturn]] void throw_failure(const Failure& failure);

}  // namespace orrery
