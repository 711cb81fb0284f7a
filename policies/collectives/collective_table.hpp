// Policy `collective-table`: sets the table of collective algorithms of every job, once each time
// the job starts to run, to the rules of the scenario; without rules to "automatic" for all kinds
// of collectives. Registered in run/registry.cpp; one thread.
#pragma once

#include <vector>

#include "policies/seam/policy.hpp"

namespace orrery {

/// Policy that sets a fixed table of collective algorithms. For example, the rules {all-reduce,
/// ring} and {all-reduce, tree, from_ranks 64} give a tree to groups of at least 64 ranks.
class CollectiveTablePolicy : public Policy {
 public:
  /// Returns Configure and the setting CollectiveTable; no tick.
  Needs needs() const override;
  /// `parameters`: CollectiveTableParameters; throws an internal Error without them.
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  /// Decides the table once for each job that has begun to run; a job that stops running gets the
  /// table again at its next start. A rejected decision is not repeated. Always rests.
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  /// Appends the ids of the running jobs whose table is set.
  void save(Archive& archive) const override;
  /// Replaces these ids; the table itself comes from start(). Throws an internal Error for bytes
  /// that are incomplete or too many.
  void load(const Archive& archive) override;

 private:
  CollectiveTable table_;
  std::vector<JobId> told_;  ///< running jobs whose table is set, ascending
};

}  // namespace orrery
