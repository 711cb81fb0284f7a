// The seam. A policy is a deterministic state machine: observation in, decisions out. It owns no
// clock, thread, socket, file or random source; time is a field of the observation, randomness a
// generator handed over. The simulator, real processes and a recorded log all stand behind the
// same Backend (backend.hpp), and one loop (drive.hpp) joins the two. Nothing here tells a policy
// which of them it is talking to.
//
// To write a policy: subclass Policy, say in needs() what it reads and does, keep state in members,
// register it by name (registry.hpp). One thread calls it; calls never overlap.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <google/protobuf/message.h>

#include "core/ids.hpp"
#include "core/random.hpp"
#include "core/units.hpp"
#include "policies/compression/gradient_codec.hpp"
#include "policies/world.hpp"
#include "topologies/cluster.hpp"
#include "traces/collective.hpp"

namespace orrery {

// ---- what a policy sees -------------------------------------------------------------------

enum class Origin : std::uint8_t { measured, modelled, missing };

/// One sampled value. `age` is how long before `now` it was true. Never use a missing one.
template <class T>
struct Sample {
  T value{};
  Nanos age = 0;
  Origin origin = Origin::missing;
  bool known() const { return origin != Origin::missing; }
};

struct DeviceSample {
  GpuId gpu;
  Sample<double> utilization;       ///< share of the time with a kernel running, 0..1
  Sample<double> memory_bandwidth;  ///< share of the peak, 0..1
  Sample<double> memory_used;       ///< bytes
  Sample<double> power;             ///< watts
};
/// The path between two GPUs that talk to each other (a ring edge, a pipeline boundary).
struct LinkSample {
  GpuId from, to;
  Sample<double> latency;    ///< seconds, small message
  Sample<double> bandwidth;  ///< bytes per second, last transfer
};
struct RankSample {
  JobId job;
  RankId rank;
  Step step = 0;                      ///< the step it is working on
  Sample<double> micro_batches_done;  ///< of this step, with the fraction of the current one
  Sample<double> micro_batch_time;    ///< seconds of compute per micro-batch, most recent
  Sample<double> wait_time;           ///< seconds it waited for others in the last step
  Sample<double> gradient_variance;
};
struct CollectiveSample {
  JobId job;
  CollectiveKind kind;
  CollectiveAlgorithm algorithm;
  double bytes = 0;
  std::uint32_t ranks = 0;
  double duration = 0;  ///< seconds
};

/// The changes since the last call, and read-only views of everything known. The spans and
/// references live until observe() returns.
struct Observation {
  Nanos now = 0;
  Epoch epoch;
  std::uint64_t sequence = 0;  ///< counts calls from 0
  std::span<const Event> events;
  std::span<const DeviceSample> devices;  ///< fresh samples only, here and below
  std::span<const LinkSample> links;
  std::span<const RankSample> ranks;
  std::span<const CollectiveSample> collectives;
  const Cluster& cluster;
  const ClusterState& state;
  const JobTable& jobs;
};

// ---- what a policy can do -----------------------------------------------------------------

struct PlaceJob { JobId job; std::vector<GpuId> gpus; };
struct Preempt { JobId job; bool checkpoint = true; };
/// Micro-batches of one step per data-parallel replica; the sum must stay what it was.
struct ShiftMicrobatches { JobId job; std::vector<std::uint32_t> per_replica; };
struct SetAccumulation { JobId job; std::uint32_t micro_batches = 0; };
struct SetLayout { JobId job; std::uint32_t tensor = 1, pipeline = 1, data = 1; };
struct SetBuckets { JobId job; Bytes size; };
struct Prefetch { JobId job; std::uint32_t depth = 0; };
/// Replaces the job's table (traces/collective.hpp); all ranks change at the same step.
struct SetCollectiveTable { JobId job; CollectiveTable rules; };
struct SetCodec { JobId job; std::vector<CodecRule> rules; };
enum class CheckpointTier : std::uint8_t { memory, peer, local_disk, storage };
struct SetCheckpoint { JobId job; Nanos interval = 0; CheckpointTier tier{}; };
enum class Recovery : std::uint8_t { shrink, replace, restart, wait };
enum class StateSource : std::uint8_t { peer, checkpoint };
struct Recover {
  JobId job; Recovery how{}; std::vector<RankId> exclude; std::optional<GpuId> spare;
  StateSource state_from{};
};
struct SetPowerCap { GpuId gpu; Watts cap; };
struct WakeMe { Nanos at = 0; };

/// Order is the wire order (trace.proto); append only.
using Action = std::variant<PlaceJob, Preempt, ShiftMicrobatches, SetAccumulation, SetLayout,
                            SetBuckets, Prefetch, SetCollectiveTable, SetCodec, SetCheckpoint,
                            Recover, SetPowerCap, WakeMe>;

struct Decision {
  std::uint64_t number = 0;  ///< given by drive(), counts from 0
  Action what;
  Step effective_at_step = 0;     ///< first step it holds for; 0: at once
  std::optional<Epoch> if_epoch = {};  ///< dropped if membership has changed since
  Nanos expires = kNever;
  std::string why = {};           ///< for people: one line
};

/// What observe() hands back.
class DecisionList {
 public:
  Decision& add(Action what, std::string why) {
    decisions_.push_back(Decision{.what = std::move(what), .why = std::move(why)});
    return decisions_.back();
  }
  /// Promise: while jobs, layout and hardware stay as they are, nothing would be decided. Lets a
  /// backend skip the calls in between (an event always ends the rest).
  void rest() { at_rest_ = true; }
  bool at_rest() const { return at_rest_; }
  void clear() { decisions_.clear(); at_rest_ = false; }
  std::vector<Decision>& items() { return decisions_; }
  const std::vector<Decision>& items() const { return decisions_; }

 private:
  std::vector<Decision> decisions_;
  bool at_rest_ = false;
};

// ---- the contract of both sides -----------------------------------------------------------

/// Bits of a Needs or Capabilities mask.
enum Signal : std::uint32_t {
  kJobs = 1, kSteps = 2, kDevices = 4, kLinks = 8, kRanks = 16, kCollectives = 32, kMembership = 64
};
constexpr std::uint32_t action_bit(std::size_t variant_index) { return 1u << variant_index; }

struct Needs {
  std::uint32_t signals = 0;
  std::uint32_t actions = 0;  ///< action_bit()s of Action's alternatives
  Nanos tick_period = 0;      ///< 0: events only
};
struct Capabilities {
  std::uint32_t signals = 0;
  std::uint32_t actions = 0;
};

struct Context {
  Rng& rng;
  Capabilities backend;
};

/// Byte string that a policy saves itself into; equal states give equal bytes.
using Archive = std::string;

class Policy {
 public:
  virtual ~Policy() = default;
  virtual Needs needs() const = 0;
  virtual void start(Context& context, const Cluster& cluster,
                     const google::protobuf::Message* parameters) = 0;
  /// The one entry point. Must not keep references into `seen`.
  virtual void observe(Context& context, const Observation& seen, DecisionList& decisions) = 0;
  /// Everything that decides future decisions; a stateless policy leaves both alone.
  virtual void save(Archive&) const {}
  virtual void load(const Archive&) {}
};

}  // namespace orrery
