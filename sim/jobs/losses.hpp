// What a training job has lost: which ranks died when and of what, when whoever is left notices,
// and when it worked again, for the report. Kept by a training run; one thread. Nanoseconds of the
// policy clock.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/ids.hpp"
#include "traces/report.pb.h"

namespace orrery::sim {

class Losses {
 public:
  /// `rank` has died of `cause`; who is left notices it at `noticed`.
  void strike(RankId rank, const std::string& cause, Nanos now, Nanos noticed);
  /// The job itself has: nobody is left to notice.
  void end(const std::string& cause, Nanos now);

  bool any() const { return !losses_.empty(); }
  /// It is lost, but nobody has noticed yet.
  bool has_died(RankId rank) const;
  /// Some are lost that nobody has noticed yet.
  bool unnoticed() const { return !unnoticed_.empty(); }
  Nanos next_noticed() const;          ///< kNever: there is nothing to notice
  Nanos all_noticed(Nanos now) const;  ///< `now` at the earliest
  void forget_unnoticed() { unnoticed_.clear(); }

  struct Noticed {
    std::vector<RankId> ranks;  ///< ascending
    Nanos first = kNever;       ///< when the first of them was lost
  };
  /// All that are noticed by `now`; who is left works from `working` on.
  Noticed notice(Nanos now, Nanos working);

  // What became of them.
  void resumed(Nanos now);           ///< a step is committed again
  bool has_resumed() const;          ///< it was after every loss
  void replaced(Nanos now);          ///< all ranks are there again
  void rolled_back(Step steps);      ///< so many steps are done again because of the newest
  std::string newest_cause() const;  ///< empty: there was none
  void fill(Report& report) const;

 private:
  struct Loss {
    std::optional<RankId> rank;
    Nanos at = 0;
    FailureReport report;
  };
  Loss& add(const std::string& cause, Nanos now);

  std::vector<Loss> losses_;
  std::vector<std::pair<Nanos, std::size_t>> unnoticed_;  ///< until when, which loss
};

}  // namespace orrery::sim
