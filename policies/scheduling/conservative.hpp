// Conservative backfill (Mu'alem and Feitelson 2001): every waiting job has a reservation by number
// of GPUs, at the earliest instant at which it delays no job before it in the queue, by expected
// ends. A pass plans anew in queue order, so that what a job leaves over when it ends early goes to
// those first in line, and starts those whose reservation is now. One that cannot be placed now is
// reserved from the next second on.
#pragma once

#include <vector>

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
  bool all_too_large() const;
  void line_up();

  struct Waiting {
    std::uint32_t gpus = 0;
    Nanos estimate = 0;
    JobId job;
  };
  bool may_start(const Waiting& job, Nanos now) const;

  Availability plan_;
  std::vector<Waiting> window_;           ///< who gets a reservation in this pass
  std::vector<std::uint32_t> scattered_;  ///< sizes that could not be placed in it
  std::uint32_t reservations_ = 0;        ///< at most
};

}  // namespace orrery
