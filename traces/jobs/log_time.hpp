// Instants and durations in the notations of job logs. Thread-safe; seconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace orrery {

/// Returns the seconds since 1970 of an instant such as "2023-05-17 11:00:58". Accepts T between
/// date and time, a fraction (cut off), and Z or an offset (+08:00); an instant without an offset
/// is UTC. Accepts a plain number of seconds too. Returns nothing for any other text.
std::optional<std::int64_t> parse_instant(std::string_view text);

/// Returns the date of an instant in seconds since 1970, for example "2024-03-01 08:00:00 UTC".
std::string date_text(std::int64_t instant);

/// Returns the seconds of a duration in Slurm's notation, "[days-]hours:minutes:seconds" or
/// "minutes:seconds"; a fraction is cut off. For example, "1-02:00:00" gives 93,600. Returns
/// nothing for any other text.
std::optional<std::int64_t> parse_elapsed(std::string_view text);

}  // namespace orrery
