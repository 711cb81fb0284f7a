// Reports of NCCL's plugins in the ranks of a program to `orrery run`: ranks that load NCCL, and
// the time of each collective. Used by both sides: the plugins (report_sender) and
// live/programs/policies. One line of text each, for example "open 2" and
// "done 81 5 3 4 all_reduce 1048576 ring 420000". Pure functions; thread-safe. Needs no NCCL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "traces/workload/collective.hpp"

namespace orrery::live {

/// Report that the process of a rank of the program has loaded NCCL.
struct OpenReport {
  std::size_t rank = 0;
};

/// Report of one collective at one rank of its communicator.
struct CollectiveReport {
  std::uint64_t communicator = 0;  ///< the same number at all ranks of the communicator
  std::uint64_t sequence = 0;      ///< number of the call in the communicator
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
  CollectiveKind kind{};
  std::uint64_t bytes = 0;  ///< sum of all ranks' parts, for gathered and scattered tensors
  CollectiveAlgorithm algorithm{};
  std::uint64_t duration_ns = 0;  ///< time between the first channel's begin and the last one's end
};

using NcclReport = std::variant<OpenReport, CollectiveReport>;

/// Returns the line of a report, without its end.
std::string print_report(const NcclReport& report);
/// Returns the report of a line; nothing if the line is no report of print_report().
std::optional<NcclReport> parse_report(std::string_view line);

/// Returns the kind of a collective by NCCL's name of its function, for example "AllReduce";
/// nothing for kinds that policies do not know.
std::optional<CollectiveKind> kind_of_function(std::string_view name);
/// Returns the algorithm by NCCL's name, for example "RING" or "NVLS_TREE"; automatic for
/// algorithms that policies do not know.
CollectiveAlgorithm algorithm_named(std::string_view name);
/// Returns the bytes of a value by NCCL's name of its type, for example 2 for "ncclBfloat16"; 0 for
/// a name without a number of bits.
std::uint64_t bytes_of_type(std::string_view name);

}  // namespace orrery::live
