// Conservative backfill (Mu'alem and Feitelson 2001): every waiting job has a reservation by number
// of GPUs, at the earliest instant at which it delays no job before it in the queue, by expected
// ends. A pass plans anew in queue order, so that what a job leaves over when it ends early goes to
// those first in line, and starts those whose reservation is now. One that cannot be placed now is
// reserved from the next second on.
#pragma once

#include "policies/scheduling/availability.hpp"
#include "policies/scheduling/backfill.hpp"

namespace orrery {

class ConservativePolicy : public BackfillPolicy {
 public:
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;

 private:
  void dispatch(const Observation& seen, DecisionList& decisions) override;
  void plan(Nanos now);

  Availability plan_;
  std::uint32_t reservations_ = 0;  ///< at most
};

}  // namespace orrery
