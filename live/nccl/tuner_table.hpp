// Table of the NCCL tuner plugin: the algorithm for a collective of a size and a number of ranks. A
// policy decides it (CollectiveTable), an agent writes it to a file, the plugin in the training
// process reads it. All ranks must choose alike (NCCL hangs otherwise), so a table becomes valid
// with a call, not when it is read: every communicator counts its collectives, which are the same
// on all of its ranks. Text, one entry a line, for example "orrery-collectives 1", "from 0",
// "all_reduce 0 2 ring", "all_reduce 1048576 8 tree ll128 4" (bytes, ranks, algorithm, protocol,
// channels; the last two are optional), "from 5000". Pure functions, thread-safe. Needs no NCCL.
// Sizes in bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::live {

/// Numbers of NCCL (nccl_common.h, nccl_tuner.h).
enum class NcclCollective : int { broadcast, reduce, all_gather, reduce_scatter, all_reduce };
enum class NcclAlgorithm : int {
  tree, ring, collnet_direct, collnet_chain, nvls, nvls_tree, pat,
  automatic = 1000  ///< not NCCL's: NCCL's choice without a table
};
enum class NcclProtocol : int { ll, ll128, simple };

/// Rule for one kind of collective.
struct TunerRule {
  NcclCollective collective{};
  std::uint64_t from_bytes = 0;
  std::uint32_t from_ranks = 0;
  NcclAlgorithm algorithm{};
  std::optional<NcclProtocol> protocol;  ///< absent: NCCL's cheapest for the algorithm
  std::uint32_t channels = 0;            ///< 0: NCCL's number
  bool operator==(const TunerRule&) const = default;
};
/// Rules that are valid from call `from` of a communicator on, until the next section.
struct TunerSection {
  std::uint64_t from = 0;
  std::vector<TunerRule> rules;
  bool operator==(const TunerSection&) const = default;
};
using TunerTable = std::vector<TunerSection>;

/// Returns the text of a table; the channels of a rule without a protocol are left out. The
/// sections must be in ascending order of `from`, without which parse_tuner_table() refuses the
/// text.
std::string print_tuner_table(const TunerTable& table);
/// Returns the table of a text. Throws bad_input "line N: ..." for any text other than the output
/// of print_tuner_table() with comments ("# ...") and blanks behind its first line, and for more
/// than 100,000 lines: a table is accepted completely or not at all.
TunerTable parse_tuner_table(std::string_view text);

/// Returns the rule for a call: of the applicable rules of the section in force, the last with the
/// most ranks, then bytes; null if no rule applies or the call is before the first section. The
/// rule points into `table`, whose sections must be in ascending order.
const TunerRule* find_tuner_rule(const TunerTable& table, std::uint64_t call,
                                 NcclCollective collective, std::uint64_t bytes,
                                 std::uint32_t ranks);

/// Makes `rule` the cheapest entry of NCCL's cost table (row-major, algorithms by protocols), if
/// NCCL supports it (entries below 0 are unsupported): sets its cost to 0. Returns true if NCCL
/// supports it; returns false, without a change, if not, if the table lacks the algorithm or the
/// protocol, and for `automatic`. Without a protocol, the cheapest supported one of the algorithm
/// is preferred.
bool prefer(const TunerRule& rule, std::span<float> costs, int protocols);

}  // namespace orrery::live
