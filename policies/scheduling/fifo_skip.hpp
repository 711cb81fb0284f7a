// First come, first served, passing over what does not fit: a pass goes through the whole queue in
// order of submission and starts every job that can be placed at that moment. Large jobs may wait
// for ever behind small ones.
#pragma once

#include "policies/scheduling/waiting_line.hpp"

namespace orrery {

class FifoSkipPolicy : public WaitingLine {
 private:
  void dispatch(const Observation& seen, DecisionList& decisions) override;
};

}  // namespace orrery
