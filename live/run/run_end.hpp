// How a live run ends: with all its steps done and the parameters that its ranks hand in, or
// before, and why. Told by the live backend as it comes; one thread.
#pragma once

#include <string>

#include "core/ids.hpp"
#include "live/run/files/journal.hpp"
#include "live/run/losses/failure_records.hpp"
#include "live/run/observations/policy_clock.hpp"
#include "live/run/processes/crew.hpp"
#include "traces/report.pb.h"

namespace orrery::live {

class RunEnd {
 public:
  /// `steps`: that the run was asked for.
  explicit RunEnd(Step steps) : steps_(steps) {}

  /// It is to end after the step under way, for that reason; the first one counts.
  void stop(const std::string& reason) { stop_reason_ = reason; }
  bool stopping() const { return !stop_reason_.empty(); }
  /// A part of the training state is gone; every rank says so. Why nobody can go on.
  const std::string& state_gone(const std::string& what);
  bool state_gone() const { return !state_gone_.empty(); }

  /// `next` is the first step that has not been done.
  bool steps_done(Step next) const { return next >= steps_; }
  /// All that was asked for is done and there.
  bool whole(Step next) const { return steps_done(next) && !state_gone(); }
  /// Lets the ranks hand in their parameters and end, unless an earlier controller did. Writes to
  /// the journal what they are; whoever is lost meanwhile goes to `failures`.
  void gather(Crew& crew, Step next, FailureRecords& failures, Journal& journal,
              const PolicyClock& clock);

  /// Why this is not the run that was asked for; empty: it is. `no_checkpoint`: why the last one is
  /// missing.
  std::string unfinished(Step next, const FailureRecords& failures,
                         const std::string& no_checkpoint) const;
  void fill(Report& report) const;

 private:
  const Step steps_;
  std::string stop_reason_;        ///< of the operator; empty: none
  std::string state_gone_;         ///< which part of it; empty: none
  std::string parameters_sha256_;  ///< empty: no rank has handed them in
};

}  // namespace orrery::live
