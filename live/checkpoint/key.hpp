// Key of a run's checkpoints (`checkpoints.key`): it proves that a manifest is the run's own, so
// that other writers of the folder cannot give a run other parameters. Stateless.
#pragma once

#include <string>
#include <string_view>

namespace orrery::live {

/// Returns the contents of the key file; empty for an empty path. Throws bad_input unless it is a
/// regular file of 32 to 4,096 bytes that belongs to this user and that no other user may read.
std::string read_checkpoint_key(const std::string& path);

/// Returns the HMAC with SHA-256 (RFC 2104) as 64 hex digits.
std::string hmac_sha256_hex(std::string_view key, std::string_view bytes);

}  // namespace orrery::live
