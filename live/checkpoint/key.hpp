// The key of a run's checkpoints (live.checkpoints.key): who writes a manifest shows with it that
// it is the run's own, so that who may write the folder cannot give a run other parameters.
// Stateless.
#pragma once

#include <string>
#include <string_view>

namespace orrery::live {

/// The contents of that file; empty if no path is given. Throws bad_input unless it is a regular
/// file of 32 to 4,096 bytes that belongs to this user and that nobody else may read.
std::string read_checkpoint_key(const std::string& path);

/// HMAC with SHA-256 (RFC 2104), 64 hex digits.
std::string hmac_sha256_hex(std::string_view key, std::string_view bytes);

}  // namespace orrery::live
