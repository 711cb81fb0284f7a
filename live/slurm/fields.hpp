// Texts of single fields in the answers of Slurm's commands: lists of hosts, resources, times,
// states. Used by live/slurm/answers. Pure functions, thread-safe. Instants are seconds since 1970;
// 0: unknown.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "policies/seam/event.hpp"

namespace orrery::live {

/// Phase of a job in Slurm: in the queue, on nodes, or over.
enum class SlurmPhase : std::uint8_t { pending, placed, ended };

/// Returns true for a text with which Slurm shows that a field has no value, for example "(null)".
bool is_absent(std::string_view text);
/// Returns the parts of a text between separators, at least one: "a,,b" has three.
std::vector<std::string_view> split_text(std::string_view text, char separator);
/// Returns the number of a text, for example 17 for "17". Throws a usage Error for another text,
/// and for a number that is too large.
std::uint32_t parse_count(std::string_view text);
/// Returns the number of a text as parse_count(), up to 2^64 - 1.
std::uint64_t parse_large_count(std::string_view text);
/// Returns the id of a job, for example "17", "17_4" or "17+1". Throws a usage Error for another
/// text.
std::string_view parse_job_id(std::string_view text);
/// Returns an instant; 0 for a field without a value. Throws a usage Error for another text.
std::int64_t parse_instant(std::string_view text);
/// Returns the names in a list of hosts: "n[1-2,04],m7" is n1, n2, n04, m7. Returns nothing for
/// "(null)", "N/A" and an empty text. Throws a usage Error for a malformed list, and for one with
/// more than 131,072 names.
std::vector<std::string> expand_hosts(std::string_view list);
/// Returns the number of GPUs in a list of generic resources: 3 for "gres:gpu:a100:2,gres:gpu:1",
/// 8 for "gpu:8(S:0-1)", 0 for "N/A". Throws a usage Error for a number that is none.
std::uint32_t count_gpus(std::string_view resources);
/// Returns the first type of GPUs in a list of generic resources: "a100" for "gpu:a100:2,gpu:1",
/// empty for "gpu:8(S:0-1)".
std::string gpu_type_in(std::string_view resources);
/// Returns the seconds of a time limit: 300 for "5:00", 97,200 for "1-03:00:00", 0 for "UNLIMITED".
/// Throws a usage Error for another text.
std::int64_t parse_limit(std::string_view limit);
/// Returns the phase of a job whose state is Slurm's word `state`. Throws a usage Error with the
/// nearest word for an unknown one.
SlurmPhase phase_of(std::string_view state);
/// Returns how a job of the phase `ended` ended: "COMPLETED" is completed, "CANCELLED by 1001" is
/// cancelled, any other word is failed.
Ending ending_of(std::string_view state);

}  // namespace orrery::live
