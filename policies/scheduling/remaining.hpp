// Shortest remaining time first (srtf) and smallest remaining service first (srsf: remaining time
// by GPUs): the preemptive queues that go by estimates. A job that has outlived its estimate goes
// first.
#pragma once

#include "policies/scheduling/preemptive.hpp"

namespace orrery {

class SrtfPolicy : public PreemptivePolicy {
 protected:
  /// Remaining time; of a running job the instant at which none is left.
  std::int64_t key_of(const Track& job) const override;
  std::int64_t rank(const JobPlace& place, std::uint32_t gpus, bool running,
                    Nanos now) const override;
  const char* reason() const override { return "least time left"; }
};

/// In milliseconds by GPUs, so that centuries of all GPUs are a number.
class SrsfPolicy : public SrtfPolicy {
 protected:
  std::int64_t rank(const JobPlace& place, std::uint32_t gpus, bool running,
                    Nanos now) const override;
  const char* reason() const override { return "least service left"; }
};

}  // namespace orrery
