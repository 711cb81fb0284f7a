// Collectives of a program's ranks that NCCL's profiler plugin has reported, put together to
// samples for policies. Used by program_collectives. Plain state. One thread. Bytes and seconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "live/nccl/collective_report.hpp"
#include "policies/seam/samples.hpp"

namespace orrery::live {

/// Account of calls by communicator and number. A call is known once all ranks of its communicator
/// have reported it. Its time is the shortest of its ranks, which is that of the rank that came
/// last: the others wait for it in the same call. Example: ranks 0 and 1 report 50 and 12 ms for
/// call 7, because rank 0 has begun 38 ms earlier; the sample has 12 ms.
class CollectiveBook {
 public:
  /// Adds the report of one rank. Reports of the oldest calls that are not known are forgotten
  /// beyond 4,096 calls.
  void add_report(const CollectiveReport& report);
  /// Returns the newest known call of each kind, size and number of ranks since the last call, at
  /// most 64, and gives them the number of a step.
  std::vector<CollectiveSample> drain_samples(Step step);

 private:
  struct Call {
    std::uint32_t ranks = 0;        ///< ranks that have reported
    std::uint64_t duration_ns = 0;  ///< shortest
  };
  using Size = std::tuple<CollectiveKind, std::uint64_t, std::uint32_t>;

  std::map<std::pair<std::uint64_t, std::uint64_t>, Call> open_;
  std::map<Size, CollectiveSample> newest_;
};

}  // namespace orrery::live
