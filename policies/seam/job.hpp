// A job as policies know it: what was submitted, where it stands, what of it is set, how far it is.
// Plain values that only World changes (world.hpp); one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "core/ids.hpp"
#include "core/units.hpp"
#include "policies/seam/gpu_runs.hpp"
#include "policies/seam/kinds.hpp"
#include "traces/training/collective.hpp"
#include "traces/training/gradient_codec.hpp"

namespace orrery {

/// How a job's ranks are divided. A job without a step to speak of has `data` ranks of nothing
/// else.
struct ParallelLayout {
  std::uint32_t tensor = 1, context = 1, pipeline = 1, data = 1;
  bool pipeline_last = false;  ///< ranks: replicas of a stage are neighbours

  std::uint64_t ranks() const { return std::uint64_t{ranks_per_replica()} * data; }
  std::uint32_t ranks_per_replica() const { return tensor * context * pipeline; }
  /// The replica of a rank is (rank / replica_stride()) modulo `data`.
  std::uint32_t replica_stride() const {
    return pipeline_last ? tensor * context : ranks_per_replica();
  }
  std::uint32_t replica_of(RankId rank) const { return rank.value / replica_stride() % data; }
  friend bool operator==(const ParallelLayout&, const ParallelLayout&) = default;
};

/// Where the state that a job goes on from is taken: from the ranks that are left, or from the
/// newest checkpoint; none: it begins, or has no state.
enum class StateFrom : std::uint8_t { none, peer, checkpoint };
enum class Tier : std::uint8_t { memory, peer, local_disk, storage };

// ---- what can be set while a job runs -----------------------------------------------------

/// Micro-batches of one step by data-parallel replica; the sum is the step's.
struct Shares {
  std::vector<std::uint32_t> per_replica;
  friend bool operator==(const Shares&, const Shares&) = default;
};
/// Rules by class of gradient bucket; none: gradients travel as they are.
using CodecRules = std::vector<CodecRule>;
/// A checkpoint after every so many steps; 0: none by itself.
struct CheckpointPlan {
  std::uint64_t every_steps = 0;
  Tier tier = Tier::storage;
  friend bool operator==(const CheckpointPlan&, const CheckpointPlan&) = default;
};
/// What ranks do by themselves when some of them are lost, until somebody decides: the others go on
/// and share the work, all stand still, or the others go on while the lost ones are replaced on the
/// same GPUs.
enum class LossResponse : std::uint8_t { go_on, hold, replace };
struct OnLoss {
  LossResponse response = LossResponse::go_on;
  friend bool operator==(const OnLoss&, const OnLoss&) = default;
};

/// Order is the wire's (trace.proto); append only. A new setting is a struct and a place here; what
/// it means is said where a step is carried out, and in World::objection if it can be wrong.
using Setting = std::variant<Shares, CollectiveTable, CodecRules, CheckpointPlan, OnLoss>;

/// Holds from a step on, never within one; all others hold at once.
template <class S>
inline constexpr bool changes_steps = std::is_same_v<S, Shares> ||
                                      std::is_same_v<S, CollectiveTable> ||
                                      std::is_same_v<S, CodecRules>;

/// One value of every setting.
class Settings {
 public:
  template <class S>
  const S& get() const {
    return std::get<S>(values_);
  }
  void set(Setting setting) {
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

/// What was known at submission, and nothing else: how long it really ran is the backend's.
struct JobSpec {
  JobId id;
  std::string name, user;
  std::string pool;  ///< virtual cluster, queue or tenant
  Nanos submit = 0;
  /// How long it is expected to run; 0: unknown. An expectation, unless the run says that estimates
  /// are the recorded truth.
  Nanos estimate = 0;
  std::int32_t priority = 0;  ///< higher goes first, where a policy looks at it
  std::uint32_t gpus = 0;
  std::uint32_t least_gpus = 0, most_gpus = 0;  ///< elastic where they differ; 0: as `gpus`
  ParallelLayout layout;                    ///< as submitted
  std::uint32_t micro_batches = 0;  ///< of one step, all replicas together; 0: no training job
  std::uint32_t max_micro_batches = 0;  ///< of one replica and step, by memory; 0: no limit
  Step steps = 0;                       ///< 0: unknown
  Nanos nominal_micro_batch_time = 0;   ///< declared or predicted; 0: unknown
  Bytes state;                          ///< of a checkpoint, all ranks together; 0: unknown
  Kinds<Setting> can;             ///< what this job's program lets be set while it runs
  std::vector<Setting> settings;  ///< that hold from its start on

  bool trains() const { return micro_batches > 0; }
  std::uint32_t least() const { return least_gpus > 0 ? least_gpus : gpus; }
  std::uint32_t most() const { return most_gpus > 0 ? most_gpus : gpus; }
};

enum class JobPhase : std::uint8_t { waiting, starting, running, held, done };

/// GPUs of rank 0, 1, ... and how the ranks are divided.
struct Standing {
  GpuRuns gpus;
  ParallelLayout layout;
  friend bool operator==(const Standing&, const Standing&) = default;
};

struct JobInfo {
  JobSpec spec;
  JobPhase phase = JobPhase::waiting;
  Epoch epoch;              ///< of its membership; grows with every loss and every start
  Step step = 0;            ///< the step being worked on
  Step saved = 0;           ///< the step that its newest durable checkpoint goes on from
  Nanos saved_at = 0;       ///< when that was durable; 0: never
  Nanos started = 0;        ///< when it was last started
  double gpu_seconds = 0;   ///< that it has had up to `standing_since`
  Nanos standing_since = 0;
  GpuRuns gpus;             ///< of rank 0, 1, ...
  ParallelLayout layout;            ///< of those ranks
  std::optional<Standing> next;  ///< assigned and not come true yet; without GPUs: it leaves
  Settings now;                  ///< of the step being worked on
  std::vector<RankId> lost, suspected;  ///< ascending

  bool placed() const { return !gpus.empty(); }
  bool is_lost(RankId rank) const { return std::binary_search(lost.begin(), lost.end(), rank); }
  const std::vector<std::uint32_t>& shares() const { return now.get<Shares>().per_replica; }
};

/// By replica: whether one of its ranks is lost, so that it takes no micro-batches.
std::vector<bool> lost_replicas(const JobInfo& job);
/// Every micro-batch of a step belongs to a replica that is there. False once the replicas that are
/// left lack the memory for all of them, or none is left.
bool can_go_on(const JobInfo& job);
/// Where it stands without its lost replicas; ranks keep their order.
Standing without_lost(const JobInfo& job);

/// `total` over `parts` as evenly as whole numbers allow; the first ones get the remainder.
std::vector<std::uint32_t> even_split(std::uint32_t total, std::uint32_t parts);

/// Jobs that wait or run, in order of submission. One that is over leaves with the next batch of
/// events after the one that showed its end. Memory is of the jobs that are there, and four bytes
/// for each one that came after the oldest of them.
class JobTable {
 public:
  /// Null for a job that never was or is over.
  const JobInfo* find(JobId id) const {
    if (id.value < base_ || id.value - base_ >= slots_.size()) return nullptr;
    const std::uint32_t slot = slots_[id.value - base_];
    return slot == kNone ? nullptr : &entries_[slot].job;
  }
  /// Throws an internal Error for a job that is not there.
  const JobInfo& operator[](JobId id) const;
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// How many were ever submitted: the number of the next one.
  std::uint32_t submitted() const { return base_ + static_cast<std::uint32_t>(slots_.size()); }

  class Iterator {
   public:
    using value_type = JobInfo;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::forward_iterator_tag;
    using pointer = const JobInfo*;
    using reference = const JobInfo&;
    Iterator() = default;
    Iterator(const JobTable* table, std::uint32_t slot) : table_(table), slot_(slot) {}
    const JobInfo& operator*() const { return table_->entries_[slot_].job; }
    const JobInfo* operator->() const { return &**this; }
    Iterator& operator++() {
      slot_ = table_->entries_[slot_].next;
      return *this;
    }
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.slot_ == b.slot_; }

   private:
    const JobTable* table_ = nullptr;
    std::uint32_t slot_ = kNone;
  };
  Iterator begin() const { return {this, first_}; }
  Iterator end() const { return {this, kNone}; }

 private:
  friend class World;
  static constexpr std::uint32_t kNone = ~0u;
  struct Entry {
    JobInfo job;
    std::uint32_t before = kNone, next = kNone;
  };
  JobInfo& at(JobId id);
  JobInfo& add(JobSpec spec);
  void remove(JobId id);

  std::deque<Entry> entries_;         ///< growing never moves a job
  std::vector<std::uint32_t> unused_;  ///< entries of jobs that are over
  std::deque<std::uint32_t> slots_;    ///< entry by id - base_
  std::uint32_t base_ = 0, first_ = kNone, last_ = kNone;
  std::size_t size_ = 0;
};

}  // namespace orrery
