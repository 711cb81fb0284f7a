// The step that is worked on, or is next to be: since when, what its ranks have reported, and how
// long the one before took. What is done of it counts once it is committed; a new epoch throws it
// away. Fed by the live backend; one thread. Instants are the policy clock's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "core/ids.hpp"
#include "live/control.pb.h"

namespace orrery::live {

class OpenStep {
 public:
  OpenStep(Step first, std::uint32_t ranks) : number_(first), reports_(ranks) {}
  /// Of a run that an earlier controller began: the one after the newest commit.
  void restore(Step next) { number_ = next; }

  Step number() const { return number_; }
  bool under_way() const { return under_way_; }
  /// The newest committed one; 0: none yet.
  Nanos took() const { return took_; }
  /// The membership has changed since the last commit.
  bool disturbed() const { return disturbed_; }
  /// It does not last longer than the one before did.
  bool as_before(Nanos now) const;

  void begin(Nanos now);
  /// A rank's process of that life has reported; `epoch`: the present one. False: it had said so
  /// before.
  bool take(std::uint32_t rank, std::uint32_t life, const StepReport& report, std::uint64_t epoch);
  /// The membership is given up: it is not worked on any more.
  void revoke();
  /// What was reported is thrown away.
  void discard();
  /// It is final, and the next one is open; `before`: the commit before. By rank; a report that is
  /// lost is empty.
  std::vector<StepReport> commit(Nanos now, Nanos before);

 private:
  Step number_;
  bool under_way_ = false;
  bool disturbed_ = false;
  Nanos began_at_ = 0;  ///< in the present epoch
  Nanos took_ = 0;
  std::vector<std::optional<StepReport>> reports_;  ///< by rank
  /// By rank: life, epoch and step of the newest report.
  std::map<std::uint32_t, std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>> heard_;
};

}  // namespace orrery::live
