// What is known of cluster and jobs at an instant: state beside the immutable Cluster. It changes
// only through World::apply(event), so a replay that feeds the recorded events rebuilds it exactly.
// Owned by a backend, read by policies; one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/ids.hpp"
#include "policies/compression/gradient_codec.hpp"
#include "topologies/cluster.hpp"
#include "traces/collective.hpp"

namespace orrery {

struct Decision;

enum class Health : std::uint8_t { ok, suspected, lost };

struct GpuState {
  Health health = Health::ok;
  bool taken = false;
  JobId owner;  ///< valid only while taken
};

struct ClusterState {
  std::vector<GpuState> gpus;
  std::vector<std::uint32_t> free_per_node;  ///< healthy and not taken
  std::uint32_t free = 0;
  std::vector<LinkId> links_down;
  std::uint64_t version = 0;  ///< grows with every change
};

enum class JobPhase : std::uint8_t { waiting, running, done };

/// Immutable part: what was submitted.
struct JobSpec {
  JobId id;
  std::string name;
  std::string pool;  ///< virtual cluster, queue or tenant
  Nanos submit = 0;
  std::uint32_t gpus = 0;
  Nanos duration = 0;  ///< recorded or estimated; 0: unknown
  std::uint32_t tensor = 1, context = 1, pipeline = 1, data = 1;
  bool pipeline_last = false;  ///< ranks: replicas of a stage are neighbours
  std::uint32_t micro_batches = 0;  ///< of one step, all replicas together; 0: no training job
  std::uint32_t max_micro_batches = 0;  ///< of one replica and step, by memory
  Step steps = 0;                       ///< 0: unknown
  Nanos nominal_micro_batch_time = 0;   ///< declared or predicted; 0: unknown

  std::uint32_t ranks_per_replica() const { return tensor * context * pipeline; }
  /// The replica of a rank is (rank / replica_stride()) modulo `data`.
  std::uint32_t replica_stride() const {
    return pipeline_last ? tensor * context : ranks_per_replica();
  }
  std::uint32_t replica_of(RankId rank) const { return rank.value / replica_stride() % data; }
};

struct JobInfo {
  JobSpec spec;
  JobPhase phase = JobPhase::waiting;
  Step step = 0;  ///< the step being worked on
  std::vector<GpuId> gpus;  ///< of rank 0, 1, ...
  std::vector<std::uint32_t> per_replica;  ///< micro-batches of the current step
  CollectiveTable collectives;  ///< of the current step; none: what the backend does by itself
  std::vector<CodecRule> codecs;  ///< of the current step; none: gradients travel as they are
  std::vector<Health> ranks;
};

/// A rank of that replica is lost: it takes no micro-batches until all of its ranks are back.
bool replica_lost(const JobInfo& job, std::uint32_t replica);
/// Every micro-batch of a step belongs to a replica that is there. False once the replicas that are
/// left lack the memory for all of them, or none is left.
bool can_go_on(const JobInfo& job);

/// All jobs ever submitted, by JobId. A deque: growing never moves a job.
using JobTable = std::deque<JobInfo>;

// ---- events -------------------------------------------------------------------------------

/// `placed`: where it already stands (a job that no policy had to place); empty: it waits.
struct JobSubmitted { JobSpec job; std::vector<GpuId> placed = {}; };
struct JobDone { JobId job; };
struct StepDone { JobId job; Step step = 0; Nanos duration = 0; };
struct RankSuspected { JobId job; RankId rank; };
/// Its replica's micro-batches go to the others; shifts that were announced for later are void.
struct RankLost { JobId job; RankId rank; };
/// Replaced or recovered: its replica gets an even share again.
struct RankBack { JobId job; RankId rank; };
struct LinkDown { LinkId link; };
struct LinkUp { LinkId link; };
struct CheckpointDone { JobId job; Step step = 0; std::uint32_t tier = 0; };
enum class Outcome : std::uint8_t { applied, rejected, expired };
struct DecisionOutcome { std::uint64_t decision = 0; Outcome status{}; std::string reason; };
struct Tick {};

/// Order is the order among events of one instant, and the wire order; append only.
using Event = std::variant<JobDone, StepDone, CheckpointDone, RankSuspected, RankLost, RankBack,
                           LinkDown, LinkUp, JobSubmitted, DecisionOutcome, Tick>;

/// `total` over `parts` as evenly as whole numbers allow; the first ones get the remainder.
std::vector<std::uint32_t> even_split(std::uint32_t total, std::uint32_t parts);

class World {
 public:
  explicit World(const Cluster& cluster);

  const Cluster& cluster() const { return cluster_; }
  const ClusterState& state() const { return state_; }
  const JobTable& jobs() const { return jobs_; }

  /// Empty if the decision can be applied now, else why not: unknown job, GPU taken, sums that
  /// differ, memory limit.
  std::string objection(const Decision& decision) const;
  /// Empty if the event can happen now, else why not: an id out of range, a job submitted out of
  /// order, the outcome of a decision that nobody announced.
  std::string objection(const Event& event) const;
  /// Remembers a decision until its DecisionOutcome event arrives; only then does it take effect.
  void announce(const Decision& decision);
  /// O(log(jobs) + GPUs of the job). Throws an internal Error where there is an objection.
  void apply(const Event& event);

 private:
  struct Check;         // visitor over events: may it happen?
  struct Change;        // visitor over events: it happens
  struct Effect;        // visitor over actions
  struct JobObjection;  // visitor over actions
  bool known(JobId job) const { return job.value < jobs_.size(); }
  std::string placement_objection(const JobSpec& job, const std::vector<GpuId>& gpus) const;
  void change(GpuId gpu, const GpuState& to);
  void take(JobInfo& job, const std::vector<GpuId>& gpus);
  void release(JobInfo& job);
  void set_health(JobId job, RankId rank, Health health);
  void begin_step(JobInfo& job, Step step);
  void drop_shifts(JobId job);
  void spread(JobInfo& job, std::uint32_t changed);

  const Cluster& cluster_;
  ClusterState state_;
  JobTable jobs_;
  std::map<std::uint64_t, Decision> announced_;
  /// Micro-batches per replica from a later step on.
  std::map<std::pair<JobId, Step>, std::vector<std::uint32_t>> shifts_ahead_;
  std::map<std::pair<JobId, Step>, CollectiveTable> tables_ahead_;  ///< the same way
  std::map<std::pair<JobId, Step>, std::vector<CodecRule>> codecs_ahead_;
};

}  // namespace orrery
