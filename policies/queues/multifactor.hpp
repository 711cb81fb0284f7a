// Priorities as Slurm's plugin priority/multifactor computes them, and EASY backfill. The priority
// of a job is the sum of weighted factors, each rounded to a whole number: the fair share of its
// virtual cluster, 2^(-u/s), with u the part of all used GPU time and s the part of all shares; its
// age in the queue over a maximal age; its GPUs over those of the cluster; the priority of its QOS
// over the largest one. Used GPU time counts half after each half-life. Highest priority first, of
// equal ones the earlier submission, then the earlier row of the log; if the first job does not
// fit, later ones may start if they do not delay it, by their estimates. On a cluster with several
// kinds of GPUs, a job cannot use the nodes of the kinds that it may not have; the first job that
// does not fit waits for the kind on which it is expected to start first.
//
// A job beyond a limit of its QOS is passed over and delays no other job. A job stays out of the
// reservations to which it does not belong, and takes the nodes of its own reservations first.
// Running jobs keep their GPUs, except those of a QOS that another QOS preempts: the job of the
// lowest priority of QOS leaves first, of several the one that started last, until the waiting job
// fits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "policies/queues/qos_rules.hpp"
#include "policies/queues/reservation_windows.hpp"
#include "policies/queues/tracked_queue.hpp"

namespace orrery {

/// Queue policy `multifactor`. For example, of two virtual clusters with equal shares the one that
/// has used everything has the factor 2^(-1 / 0.5) = 0.25, the other has 1.
class MultifactorPolicy : public TrackedQueue {
 public:
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  /// Returns the needs of queue policies and `gpu_kinds`.
  Needs needs() const override;
  /// Writes the used GPU time of ended jobs, and number and digest of the queue.
  void save(Archive& archive) const override;
  /// Restores the used GPU time of ended jobs; the queue is rebuilt from the job table. Throws an
  /// internal Error for incomplete bytes.
  void load(const Archive& archive) override;

 private:
  /// Kind of GPU, an index of free_kinds(); nothing on a cluster with one kind.
  using Kind = std::optional<std::size_t>;
  /// Start that the first blocked job expects: all jobs that end by `shadow` are over then.
  struct HeadStart {
    Nanos shadow = kNever;
    std::uint64_t extra = 0;                   ///< GPUs that are left over then
    std::vector<std::uint32_t> closed = {};  ///< nodes that the job cannot use then, ascending
    Kind kind = {};                          ///< kind on which the job is expected to start
  };
  /// Used GPU-seconds of a virtual cluster, as they count at the instant `at`.
  struct Usage {
    double gpu_s = 0;
    Nanos at = 0;
  };
  /// State of one pass over the queue.
  struct Pass;

  void dispatch_jobs(const Observation& seen, DecisionList& decisions) override;
  void on_job_end(const JobInfo& job) override;
  bool is_due(Nanos now) override;

  /// Returns the GPU-seconds of `seconds` on `gpus` GPUs up to now, as they count now.
  double counted(double seconds, std::uint32_t gpus) const;
  /// Returns the fair-share factor of each virtual cluster with jobs, by its number.
  std::vector<double> fair_shares(Nanos now) const;
  /// Returns the waiting jobs, highest priority first.
  std::vector<Ranked> by_priority(const Observation& seen) const;
  /// Starts the job, if it may start in this pass; the first job that does not fit is blocked.
  void try_job(Pass& pass, Track& job);
  /// Starts the job on a kind of GPU that has enough outside of the nodes `closed`. Returns false,
  /// without effect, if the job would delay the blocked job or finds no place. On a cluster with
  /// one kind, a job without a place counts as selected, and the result is true.
  bool start_on(Pass& pass, Track& job, Kind kind, const std::vector<std::uint32_t>& closed);
  /// Preempts jobs of other QOS for a job that does not fit, or blocks the job.
  void make_room_or_block(Pass& pass, Track& job);
  /// Returns the nodes that the job cannot use at `at`, ascending: those of reservations to which
  /// it does not belong, and those of other kinds than `kind`.
  std::vector<std::uint32_t> closed_nodes(const JobSpec& spec, Nanos at, Kind kind) const;
  /// Returns GPUs for the job: of its own reservations if possible; nothing if no place has room.
  std::optional<GpuRuns> find_gpus(Pass& pass, const JobSpec& spec,
                                   const std::vector<std::uint32_t>& closed,
                                   const std::vector<std::uint32_t>& own, bool only_own);
  /// Preempts jobs of other QOS until the job fits, and starts it. Returns false, without effect,
  /// if the job does not fit even then.
  bool make_room(Pass& pass, Track& job, const std::vector<std::uint32_t>& closed);
  /// Returns the start that a job expects which does not fit now.
  HeadStart head_start(const Pass& pass, const Track& job) const;
  HeadStart head_start_on(const Pass& pass, const Track& job, Kind kind) const;
  std::uint64_t free_in(const std::vector<std::uint32_t>& nodes) const;

  std::map<std::string, Usage> used_;     ///< usage of ended jobs, by virtual cluster
  std::map<std::string, double> shares_;  ///< shares by virtual cluster; others have one
  /// nodes of all kinds but one, ascending, for each kind; empty on a cluster with one kind
  std::vector<std::vector<std::uint32_t>> other_kinds_;
  QosTable qos_;
  ReservationWindows reservations_;
  double half_life_s_ = 0, max_age_s_ = 0, all_gpus_ = 0;
  std::uint32_t node_size_ = 1;  ///< ids of GPUs, or of slices, in a node
  double fair_share_weight_ = 0, age_weight_ = 0, size_weight_ = 0, qos_weight_ = 0;
  Nanos now_ = 0, next_edge_ = kNever;
};

}  // namespace orrery
