// The table that the NCCL tuner plugin serves: which algorithm a collective of a size and a number
// of ranks gets. A policy decides it (CollectiveTable), an agent writes it to a file, the plugin
// in the training process reads it. All ranks must choose alike (NCCL hangs otherwise), so a table
// does not begin to hold when it is read, but with a call: every communicator counts its
// collectives, which are the same on all of its ranks. Text, one entry a line:
//
//   orrery-collectives 1
//   from 0
//   all_reduce 0 2 ring
//   all_reduce 1048576 8 tree ll128 4      algorithm, protocol, channels; the last two may lack
//   from 5000
//   ...
//
// Pure functions, thread-safe. Nothing here needs NCCL. Sizes in bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::live {

/// Numbers as NCCL has them (nccl_common.h, nccl_tuner.h).
enum class NcclCollective : int { broadcast, reduce, all_gather, reduce_scatter, all_reduce };
enum class NcclAlgorithm : int {
  tree, ring, collnet_direct, collnet_chain, nvls, nvls_tree, pat,
  automatic = 1000  ///< not NCCL's: as it would choose without a table
};
enum class NcclProtocol : int { ll, ll128, simple };

struct TunerRule {
  NcclCollective collective{};
  std::uint64_t from_bytes = 0;
  std::uint32_t from_ranks = 0;
  NcclAlgorithm algorithm{};
  std::optional<NcclProtocol> protocol;  ///< absent: NCCL's cheapest for the algorithm
  std::uint32_t channels = 0;            ///< 0: NCCL's number
  bool operator==(const TunerRule&) const = default;
};
/// Rules that hold from call `from` of a communicator on, until the next section's.
struct TunerSection {
  std::uint64_t from = 0;
  std::vector<TunerRule> rules;
  bool operator==(const TunerSection&) const = default;
};
using TunerTable = std::vector<TunerSection>;

std::string print_tuner_table(const TunerTable& table);
/// Throws bad_input "line N: ..." for anything else than what print_tuner_table() writes, comments
/// ("# ...") and blanks: a table is whole or it is not taken.
TunerTable parse_tuner_table(std::string_view text);

/// The rule of a call; of those that it reaches, the one with the most ranks, then bytes. Nothing
/// where no rule holds.
const TunerRule* find_tuner_rule(const TunerTable& table, std::uint64_t call,
                                 NcclCollective collective, std::uint64_t bytes,
                                 std::uint32_t ranks);

/// Makes `rule` the cheapest entry of NCCL's cost table (row-major, algorithms by protocols), if
/// NCCL can do it at all (entries below 0 it cannot). Returns whether it could.
bool prefer(const TunerRule& rule, std::span<float> costs, int protocols);

}  // namespace orrery::live
