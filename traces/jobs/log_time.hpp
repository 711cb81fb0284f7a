// Points in time and lengths of time as job logs write them. Thread-safe; seconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace orrery {

/// Seconds since 1970 of "2023-05-17 11:00:58", also with T between, a fraction (cut off), Z or an
/// offset (+08:00) behind; without one as if it were UTC. Also a plain number of seconds. Nothing
/// for anything else.
std::optional<std::int64_t> parse_instant(std::string_view text);

/// Seconds of "[days-]hours:minutes:seconds", "minutes:seconds", fractions cut off, as Slurm writes
/// them. Nothing for anything else.
std::optional<std::int64_t> parse_elapsed(std::string_view text);

}  // namespace orrery
