// Jobs, as policies see them: submission, placement, settings and progress. Plain values that only
// World changes (world.hpp); one thread. Instants and durations (Nanos) are nanoseconds of the
// policy clock. Steps count from 0.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "core/ids.hpp"
#include "core/schema/names.hpp"
#include "core/tables/id_table.hpp"
#include "core/units.hpp"
#include "policies/seam/checkpoint_copies.hpp"
#include "policies/seam/gpu_runs.hpp"
#include "policies/seam/kinds.hpp"
#include "traces/workload/collective.hpp"
#include "traces/workload/gradient_codec.hpp"

namespace orrery {

/// Division of a job's ranks by tensor, context, pipeline and data parallelism. A job without a
/// modelled step has only `data` ranks. For example, {.tensor = 8, .pipeline = 2, .data = 4} has 64
/// ranks; one replica has 16 ranks. No size may be 0 (not checked): replica_of() divides by them.
struct ParallelLayout {
  std::uint32_t tensor = 1, context = 1, pipeline = 1, data = 1;
  bool pipeline_last = false;  ///< rank order: replicas of a stage are neighbours

  /// Returns the number of ranks.
  std::uint64_t ranks() const { return std::uint64_t{ranks_per_replica()} * data; }
  /// Returns the number of ranks of one data-parallel replica.
  std::uint32_t ranks_per_replica() const { return tensor * context * pipeline; }
  /// Returns the distance between ranks of neighbouring replicas: the replica of a rank is (rank /
  /// replica_stride()) modulo `data`.
  std::uint32_t replica_stride() const {
    return pipeline_last ? tensor * context : ranks_per_replica();
  }
  /// Returns the data-parallel replica of a rank.
  std::uint32_t replica_of(RankId rank) const { return rank.value / replica_stride() % data; }
  /// Returns true if the replicas of both layouts have the same sizes and the same order of ranks:
  /// the layouts differ at most in `data`.
  bool has_replicas_of(ParallelLayout other) const {
    other.data = data;
    return other == *this;
  }
  friend bool operator==(const ParallelLayout&, const ParallelLayout&) = default;
};

/// Source of the training state with which an assigned job continues. `peer`: the remaining ranks.
/// `checkpoint`: the newest durable checkpoint. `none`: the job begins, or has no state. A job that
/// has GPUs restarts with `checkpoint` and `none`: all of its ranks are given up at once.
enum class StateFrom : std::uint8_t { none, peer, checkpoint };

// ---- settings that can change while a job runs --------------------------------------------

/// Setting: numbers of micro-batches that the data-parallel replicas compute in one step. The sum
/// is that of the job's Batch (JobInfo::micro_batches()). For example, {13, 13, 1, 13} relieves
/// replica 2.
struct Shares {
  std::vector<std::uint32_t> per_replica;
  friend bool operator==(const Shares&, const Shares&) = default;
};
/// Setting: compression rules by class of gradient bucket; empty: gradients are sent uncompressed.
using CodecRules = std::vector<CodecRule>;
/// Setting: interval and target of the periodic checkpoints.
struct CheckpointPlan {
  std::uint64_t every_steps = 0;  ///< steps between two checkpoints; 0: no periodic checkpoints
  Tier tier = Tier::storage;      ///< target of the checkpoints
  friend bool operator==(const CheckpointPlan&, const CheckpointPlan&) = default;
};
/// Reaction of a job to lost ranks until a policy decides. `go_on`: the remaining ranks continue
/// and share the work. `hold`: all ranks stop. `replace`: the remaining ranks continue, and new
/// processes replace the lost ranks on the same GPUs.
enum class LossResponse : std::uint8_t { go_on, hold, replace };
constexpr std::array<std::string_view, 3> names_of(LossResponse) {
  return {"go-on", "hold", "replace"};
}
/// Setting: reaction of the job to lost ranks.
struct OnLoss {
  LossResponse response = LossResponse::go_on;
  friend bool operator==(const OnLoss&, const OnLoss&) = default;
};

/// Setting: global batch of the job, and the factor on its declared learning rate. Where the
/// setting takes effect, the micro-batches are divided evenly among the working replicas. A batch
/// that the working replicas cannot hold at that step, for example after a loss, is dropped. For
/// example,
/// {.micro_batches = 64, .learning_rate_factor = 1.5}.
struct Batch {
  std::uint32_t micro_batches = 0;  ///< micro-batches of one step, all replicas together
  double learning_rate_factor = 1;  ///< above 0, at most kMostRateFactor
  friend bool operator==(const Batch&, const Batch&) = default;
};
/// Largest factor on a learning rate.
inline constexpr double kMostRateFactor = 1000;
/// Setting: seconds by which the step from which the setting applies starts later, once. Each new
/// step begins with 0 seconds.
struct Delay {
  double seconds = 0;  ///< 0 to kMostDelay
  friend bool operator==(const Delay&, const Delay&) = default;
};
/// Longest delay of a step in seconds.
inline constexpr double kMostDelay = 3600;

/// Setting: limit of the power of each GPU of the job, in watts; 0: the GPU's own limit. Steps that
/// begin later have the compute clock that the limit leaves. A limit that leaves a GPU no more than
/// its idle power pauses the job between two steps, until a later limit. For example, {490} leaves
/// an H100 87% of its clock.
struct PowerCap {
  double watts = 0;  ///< 0 to kMostPowerCap
  friend bool operator==(const PowerCap&, const PowerCap&) = default;
};
/// Largest limit of one GPU's power in watts.
inline constexpr double kMostPowerCap = 100'000;

/// Setting: processes that read the training data of each rank, and the micro-batches that they
/// read ahead, all together. Each process reads one micro-batch at a time, so the processes deliver
/// a micro-batch in every 1 / min(workers, depth) of the time that one read takes. Steps that begin
/// later have the setting; those of a program from the next pass over its loader on. For example,
/// {.workers = 4, .depth = 8}, with 120 ms for a read, delivers a micro-batch every 30 ms.
struct Prefetch {
  std::uint32_t workers = 0;  ///< 1 to kMostWorkers; 0: the job reads no data
  std::uint32_t depth = 0;    ///< 1 to kMostPrefetch; 0: a micro-batch is read when it is needed
  friend bool operator==(const Prefetch&, const Prefetch&) = default;
};
/// Largest number of reading processes of a rank, and of micro-batches read ahead.
inline constexpr std::uint32_t kMostWorkers = 1000, kMostPrefetch = 10'000;

/// Value of any one setting. The order of the alternatives is part of the wire format
/// (trace.proto): append only. A new setting needs a struct and an alternative here, code that
/// executes steps with the setting, and a check in World::objection if a value can be invalid.
using Setting =
    std::variant<Shares, CollectiveTable, CodecRules, CheckpointPlan, OnLoss, Batch, Delay,
                 PowerCap, Prefetch>;

/// True for settings that change the computation of a step, and therefore apply from a step
/// boundary on; all other settings apply at once.
template <class S>
inline constexpr bool changes_steps =
    std::is_same_v<S, Shares> || std::is_same_v<S, CollectiveTable> ||
    std::is_same_v<S, CodecRules> || std::is_same_v<S, Batch> || std::is_same_v<S, Delay>;

/// Values of all settings of a job. For example, job.now.get<CheckpointPlan>().every_steps. Plain
/// value.
class Settings {
 public:
  /// Returns the value of the setting S.
  template <class S>
  const S& get() const {
    return std::get<S>(values_);
  }
  /// Replaces the value of the setting that `setting` holds.
  void set_setting(Setting setting) {
    std::visit(
        [this](auto&& value) {
          std::get<std::decay_t<decltype(value)>>(values_) = std::forward<decltype(value)>(value);
        },
        std::move(setting));
  }
  friend bool operator==(const Settings&, const Settings&) = default;

 private:
  template <class Variant>
  struct TupleOf;
  template <class... S>
  struct TupleOf<std::variant<S...>> {
    using type = std::tuple<S...>;
  };
  TupleOf<Setting>::type values_;
};

// ---- the job ------------------------------------------------------------------------------

/// Facts about a job that are known at submission. The real duration is known only to the backend.
struct JobSpec {
  JobId id;
  std::string name, user;
  std::string pool;  ///< virtual cluster, queue or tenant
  /// name that the user of a job of a real cluster gave, which other jobs may have too; empty: none
  std::string title = {};
  std::string qos = {};  ///< quality of service of a scheduler such as Slurm; empty: none
  Nanos submit = 0;  ///< instant of submission
  /// Expected duration; 0: unknown. The real duration differs, unless the run declares that
  /// estimates are the recorded durations.
  Nanos estimate = 0;
  std::int32_t priority = 0;  ///< higher values go first in policies that use priorities
  std::uint32_t gpus = 0;     ///< number of requested GPUs
  std::uint32_t least_gpus = 0, most_gpus = 0;  ///< limits of an elastic job; 0: equal to `gpus`
  /// kinds of GPUs (Cluster::gpu_kind()) that the job may use, one at a time, the preferred one
  /// first; empty: any
  std::vector<std::string> gpu_kinds = {};
  ParallelLayout layout;                    ///< layout at submission
  /// micro-batches of one step at the start, all replicas together; 0: not a training job
  std::uint32_t micro_batches = 0;
  /// micro-batches of one step that fit into the memory of one replica of `layout`; 0: no limit
  /// (see most_micro_batches())
  std::uint32_t max_micro_batches = 0;
  std::uint32_t max_workers = 0;   ///< reading processes that a rank may have; 0: no limit
  /// micro-batches read ahead for which the host has memory, for each rank; 0: no limit
  std::uint32_t max_prefetch = 0;
  Step steps = 0;                       ///< number of steps of the whole job; 0: unknown
  Nanos nominal_micro_batch_time = 0;   ///< declared or predicted duration; 0: unknown
  Bytes state;                          ///< size of a checkpoint, all ranks together; 0: unknown
  Kinds<Setting> can;             ///< settings that the job's program can change while it runs
  /// true: an assignment may change the tensor, context and pipeline sizes of the replicas, because
  /// the step of the job follows from the sizes of its model; false for every live job
  bool can_change_layout = false;
  std::vector<Setting> settings;  ///< settings from the start of the job on

  /// Returns true for a training job.
  bool is_training() const { return micro_batches > 0; }
  /// Returns the smallest number of GPUs of an elastic job; `gpus` for a job without a limit.
  std::uint32_t least() const { return least_gpus > 0 ? least_gpus : gpus; }
  /// Returns the largest number of GPUs of an elastic job; `gpus` for a job without a limit.
  std::uint32_t most() const { return most_gpus > 0 ? most_gpus : gpus; }
};

/// Phase of a job. `waiting`: has no GPUs. `starting`: has been assigned GPUs and does not run yet.
/// `held`: has stopped, after a loss or for a restart, and needs an assignment.
enum class JobPhase : std::uint8_t { waiting, starting, running, held, done };

/// Placement of a job: the GPUs of ranks 0, 1, ... and the division of the ranks.
struct Standing {
  GpuRuns gpus;
  ParallelLayout layout;
  friend bool operator==(const Standing&, const Standing&) = default;
};

/// State of one submitted job that changes: its placement, progress and settings.
struct JobState {
  JobPhase phase = JobPhase::waiting;
  Epoch epoch;              ///< membership epoch; increases with every loss and every start
  Step step = 0;            ///< step in progress
  Step saved = 0;           ///< step from which the newest durable checkpoint continues
  Nanos saved_at = 0;       ///< instant at which that checkpoint was durable; 0: never
  /// complete checkpoints; `saved` and `saved_at` are those of newest()
  HeldCheckpoints checkpoints;
  Nanos started = 0;        ///< instant of the newest start after a time without GPUs
  double gpu_seconds = 0;   ///< GPU-seconds used up to `standing_since`
  Nanos standing_since = 0;  ///< instant up to which `gpu_seconds` is counted
  GpuRuns gpus;             ///< GPUs of ranks 0, 1, ...
  ParallelLayout layout;            ///< division of those ranks
  std::optional<Standing> next;  ///< pending assignment; without GPUs: the job is leaving
  /// true while `next` restarts a job that has GPUs: all of its ranks are given up, and the state
  /// comes from a checkpoint
  bool is_restarting = false;
  Settings now;                  ///< settings of the step in progress
  std::vector<RankId> lost, suspected;  ///< ascending
  /// true from the discovery of silent corruption until the job starts again: no rank can pass on
  /// the state
  bool is_corrupted = false;

  /// Returns true if the job has GPUs.
  bool is_placed() const { return !gpus.empty(); }
  /// Returns true if the rank is lost.
  bool is_lost(RankId rank) const { return std::binary_search(lost.begin(), lost.end(), rank); }
  /// Returns the current numbers of micro-batches by data-parallel replica; empty for a job without
  /// GPUs and for a job that does not train.
  const std::vector<std::uint32_t>& shares() const { return now.get<Shares>().per_replica; }
};

/// One submitted job: its facts and its state.
struct JobInfo : JobState {
  JobSpec spec;  ///< facts known at submission, which never change

  /// Returns the micro-batches of the step in progress, all replicas together: those of the Batch,
  /// or those at submission for a job without GPUs; 0 for a job that does not train.
  std::uint32_t micro_batches() const {
    const std::uint32_t set = now.get<Batch>().micro_batches;
    return set > 0 ? set : spec.micro_batches;
  }
};

/// Returns one value for each data-parallel replica: true if a rank of the replica is lost, so that
/// the replica gets no micro-batches. The result has layout.data entries.
std::vector<bool> lost_replicas(const JobInfo& job);
/// Returns true if the job runs and no lost replica has micro-batches in the current step. After a
/// loss World moves the micro-batches of lost replicas to the remaining replicas; the result is
/// false if the remaining replicas lack the memory for them, or if no replica remains. A job
/// without shares can continue only without losses.
bool can_go_on(const JobInfo& job);
/// Returns the placement of the job without the GPUs of its lost replicas; ranks keep their order.
/// If no replica remains, the result has no GPUs and layout.data 0. The layout must have a rank for
/// each GPU, which is certain only for a training job.
Standing without_lost(const JobInfo& job);

/// Returns `total` divided into `parts` as evenly as whole numbers allow; the first parts get the
/// remainder; empty for 0 parts. For example, even_split(10, 4) is {3, 3, 2, 2}.
std::vector<std::uint32_t> even_split(std::uint32_t total, std::uint32_t parts);

/// Returns the number of micro-batches of one step that fit into the memory of one replica of
/// `layout`: JobSpec::max_micro_batches in proportion to the GPUs of a replica, rounded up; 0: no
/// limit. For example, a limit of 8 for replicas of 4 GPUs is a limit of 6 for replicas of 3.
std::uint32_t most_micro_batches(const JobSpec& job, const ParallelLayout& layout);
/// Returns true if the data-parallel replicas of `layout` have the memory for `micro_batches`
/// micro-batches of one step; false for 0 replicas.
bool fits_replicas(const JobSpec& job, std::uint32_t micro_batches, const ParallelLayout& layout);

/// Table of the jobs that wait or run, in order of submission; iterable. A job that is over leaves
/// the table after the observation that shows its end. Memory: proportional to the jobs in the
/// table, plus four bytes for each job submitted after the oldest job in the table. find() takes
/// constant time.
class JobTable {
 public:
  /// Returns the job; null for a job that was never submitted or has left the table. The pointer is
  /// valid until the job leaves the table.
  const JobInfo* find(JobId id) const {
    const Entry* const entry = entries_.find(id);
    return entry == nullptr ? nullptr : &entry->job;
  }
  /// Returns the job. Throws an internal Error for a job that is not in the table.
  const JobInfo& operator[](JobId id) const;
  /// Returns the number of jobs in the table.
  std::size_t size() const { return entries_.size(); }
  bool empty() const { return first_ == kNone; }
  /// Returns the number of jobs submitted so far, which is the id of the next job.
  std::uint32_t submitted() const { return entries_.end_id(); }

  class Iterator {
   public:
    using value_type = JobInfo;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::forward_iterator_tag;
    using pointer = const JobInfo*;
    using reference = const JobInfo&;
    Iterator() = default;
    Iterator(const JobTable* table, std::uint32_t place) : table_(table), place_(place) {}
    const JobInfo& operator*() const { return table_->entries_.value(place_).job; }
    const JobInfo* operator->() const { return &**this; }
    Iterator& operator++() {
      place_ = table_->entries_.value(place_).next;
      return *this;
    }
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.place_ == b.place_; }

   private:
    const JobTable* table_ = nullptr;
    std::uint32_t place_ = kNone;
  };
  Iterator begin() const { return {this, first_}; }
  Iterator end() const { return {this, kNone}; }

 private:
  friend class World;
  static constexpr std::uint32_t kNone = IdTable<JobInfo>::kNone;
  /// Job with the places of its neighbours in the order of submission.
  struct Entry {
    JobInfo job;
    std::uint32_t before = kNone, next = kNone;
  };
  JobInfo& at(JobId id);
  JobInfo& add(JobSpec spec);
  void remove_job(JobId id);
  /// Makes this table, a copy of `earlier` with later changes, equal to `earlier` again. Facts of
  /// jobs that both tables have are not copied.
  void restore_jobs(const JobTable& earlier);

  IdTable<Entry> entries_;
  std::uint32_t first_ = kNone, last_ = kNone;  ///< places in entries_
};

}  // namespace orrery
