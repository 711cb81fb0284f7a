// Counts what happened to every micro-batch, apart from the engine that moves them: from the
// reports of the ranks alone. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "core/ids.hpp"

namespace orrery::live {

class Ledger {
 public:
  /// Steps have the micro-batches 0 .. `per_step` - 1.
  explicit Ledger(std::uint64_t per_step) : per_step_(per_step) {}

  /// A rank has executed micro-batch `id` of `step`.
  void executed(Step step, std::uint64_t id);
  /// The update of `step` holds exactly what was executed for it since its last discard.
  void committed(Step step);
  /// What was executed for `step` is thrown away.
  void discarded(Step step);

  /// Goes on where an earlier controller's stood; what had been executed of the step that was not
  /// committed is forgotten.
  void restore(std::uint64_t lost, std::uint64_t repeated, std::uint64_t recomputed);

  std::uint64_t lost() const { return lost_; }
  std::uint64_t repeated() const { return repeated_; }
  std::uint64_t recomputed() const { return recomputed_; }

 private:
  std::uint64_t per_step_;
  std::map<Step, std::map<std::uint64_t, std::uint64_t>> open_;  ///< executions by id
  std::map<Step, std::uint64_t> thrown_away_;                    ///< executions by step
  std::uint64_t lost_ = 0, repeated_ = 0, recomputed_ = 0;
};

}  // namespace orrery::live
