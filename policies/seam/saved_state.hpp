// Saved states of policies with the name and the state version of the policy, so that a state of
// another policy or of another version is refused instead of misread. Used where a state outlives
// its policy: takeovers of live runs, futures, continued logs, changes of parameters. Pure
// functions; the policy that is saved or loaded belongs to the caller's thread.
#pragma once

#include <cstdint>
#include <string>

#include "policies/seam/byte_archive.hpp"
#include "policies/seam/policy.hpp"

namespace orrery {

/// Appends the name, the state version and the saved state of `policy`. `buffer` holds the state
/// meanwhile and keeps its memory for the next call. Exceptions of the policy pass through.
void write_state(ByteWriter& write, const std::string& name, const Policy& policy, Archive& buffer);

/// Reads a state that write_state() has appended, and loads it into `policy`, which was started.
/// Throws bad_input if the state belongs to a policy of another name than `name`, or has another
/// version that the policy cannot convert; an internal Error for bytes that end within a value.
/// Exceptions of the policy pass through; its state is undefined then.
void read_state(ByteReader& read, const std::string& name, Policy& policy);

/// Loads the present state of `from` into `to`, which was started and has the same name `name`.
/// Throws bad_input if `to` has another state version and cannot convert the state; exceptions of
/// the policies pass through.
void transfer_state(const Policy& from, Policy& to, const std::string& name);

}  // namespace orrery
