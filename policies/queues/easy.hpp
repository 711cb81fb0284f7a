// EASY backfill (Lifka 1995): first come, first served, except that later jobs may start if they do
// not delay the first job that has to wait, by their estimates. The blocked job's reservation is a
// number of GPUs: the instant at which enough GPUs are expected to be free (shadow), and the GPUs
// left over then (extra). A later job starts if it fits and either ends before the shadow or needs
// no more than the extra GPUs. On a cluster with several kinds of GPUs, the reservation is on the
// kind on which the blocked job is expected to start first, of equal ones the one that it prefers;
// jobs on other kinds do not delay it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "policies/queues/backfill.hpp"

namespace orrery {

/// Queue policy with a reservation for the first blocked job. For example, if the shadow is in 10
/// minutes with 2 extra GPUs, a 9-minute job of 4 GPUs and a 1-day job of 2 GPUs may start.
class EasyPolicy : public BackfillPolicy {
 private:
  struct Reservation {
    Nanos shadow = kNever;
    std::uint32_t extra = 0;
    std::size_t kind = 0;  ///< index in free_kinds(); unused on a cluster with one kind
  };
  void dispatch_jobs(const Observation& seen, DecisionList& decisions) override;
  Reservation reserve(std::uint32_t gpus, Nanos now);
  Reservation reserve_from(Nanos from, std::uint32_t gpus, Nanos now);
  void dispatch_by_kind(const Observation& seen, DecisionList& decisions);
  /// Starts the job, if it fits on one of its kinds and does not delay the reservation. Returns
  /// false if it does not start.
  bool start_on_a_kind(const Observation& seen, const JobSpec& job,
                       std::optional<Reservation>& reserved, DecisionList& decisions);
  Reservation reserve_by_kind(const Observation& seen, const JobSpec& job);
};

}  // namespace orrery
