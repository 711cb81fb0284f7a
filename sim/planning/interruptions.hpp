// Failures that interrupt a training job or take its hardware away, drawn once for a cluster and a
// seed and read by many plans: all candidates of one size meet the same failures (common random
// numbers), and `orrery simulate` with the same seed meets them too. One thread. Nanoseconds of the
// policy clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "topologies/cluster.hpp"
#include "traces/scenario/failure_stream.hpp"

namespace orrery::sim {

/// Failure of a node, of a GPU (which costs its node), or of the job itself.
struct Interruption {
  Nanos at = kNever;                  ///< kNever: no further failure follows
  std::optional<std::uint32_t> node;  ///< node of the lost hardware; nothing: the job itself
  Nanos repaired = 0;                 ///< instant at which the hardware works again
  /// Times of the failure's cause instead of those of the scenario.
  std::optional<Nanos> detection = {}, restart = {};
};

/// Sequence of the interruptions of one seed, by time, drawn as far as read. For example, the
/// profile llama3 on 64 nodes has about 3 in a day.
class Interruptions {
 public:
  /// Constructs the sequence of `scenario`, which must be checked, on all nodes of `cluster`, which
  /// must outlive this object.
  Interruptions(Scenario scenario, const Cluster& cluster, std::uint64_t seed);

  /// Returns the interruption `index`, valid until the next call; `at` is kNever behind the last.
  const Interruption& at(std::size_t index);

 private:
  void draw_next();

  std::uint32_t gpus_per_node_;
  FailureStream stream_;
  std::vector<Interruption> drawn_;
};

/// Returns the causes of `failures` that interrupt no job by themselves (slow parts, and parts of
/// the fabric and of the storage): plans leave them out. Throws as failure_kinds().
std::vector<std::string> causes_left_out(const Failures& failures);

}  // namespace orrery::sim
