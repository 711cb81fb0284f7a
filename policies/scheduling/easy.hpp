// EASY backfill (Lifka 1995): first come, first served, but where the first job that cannot be
// placed has to wait, later ones may start if they do not delay it, by their estimates. The blocked
// job's reservation is by number of GPUs alone: the instant at which, by expected ends, enough are
// free (shadow), and how many are left over then (extra). A later job starts if it fits and either
// ends before the shadow or needs no more than the extra GPUs.
#pragma once

#include "policies/scheduling/backfill.hpp"

namespace orrery {

class EasyPolicy : public BackfillPolicy {
 private:
  struct Reservation {
    Nanos shadow = kNever;
    std::uint32_t extra = 0;
  };
  void dispatch(const Observation& seen, DecisionList& decisions) override;
  Reservation reserve(std::uint32_t gpus, Nanos now);
};

}  // namespace orrery
