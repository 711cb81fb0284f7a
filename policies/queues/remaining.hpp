// Shortest remaining time first (srtf) and smallest remaining service first (srsf: remaining time x
// GPUs): the preemptive queues that use estimates. A job that has outlived its estimate goes first.
#pragma once

#include "policies/queues/preemptive.hpp"

namespace orrery {

/// Queue policy `srtf`.
class SrtfPolicy : public PreemptivePolicy {
 protected:
  /// Returns the remaining time; for a running job the instant at which none is left.
  std::int64_t key_of(const Track& job) const override;
  std::int64_t rank(const JobPlace& place, std::uint32_t gpus, bool running,
                    Nanos now) const override;
  const char* reason() const override { return "least time left"; }
};

/// Queue policy `srsf`. Ranks are in milliseconds x GPUs, so that centuries of all GPUs fit into a
/// number.
class SrsfPolicy : public SrtfPolicy {
 protected:
  std::int64_t rank(const JobPlace& place, std::uint32_t gpus, bool running,
                    Nanos now) const override;
  const char* reason() const override { return "least service left"; }
};

}  // namespace orrery
