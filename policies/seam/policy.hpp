// Interface of policies. A policy is a deterministic state machine: it receives observations and
// returns decisions. A policy owns no clock, thread, socket, file or random source: the time is a
// field of the observation, and random numbers come from the generator in the Context. The
// simulator, real processes and a recorded log are backends (backend.hpp); drive() (drive.hpp)
// calls the policy with the observations of a backend. No field tells a policy which backend that
// is.
//
// A new policy is a class derived from Policy that lists its actions and settings in needs(), keeps
// its state in members, writes that state in save() and is registered by name (run/registry.cpp).
// All calls come from one thread and never overlap. Instants and durations (Nanos) are nanoseconds
// of the policy clock.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/ids.hpp"
#include "core/random.hpp"
#include "policies/seam/decision.hpp"
#include "policies/seam/event.hpp"
#include "policies/seam/samples.hpp"
#include "policies/seam/world.hpp"
#include "topologies/cluster.hpp"

namespace google::protobuf {
class Message;
}

namespace orrery {

/// Input of one call of Policy::observe(): the events since the previous call, and read-only views
/// of the complete known state. Spans and references are valid until observe() returns.
struct Observation {
  Nanos now = 0;                  ///< instant of the observation, on the policy clock
  std::uint64_t sequence = 0;     ///< number of earlier calls
  std::span<const Event> events;  ///< events since the previous call, in order
  const Cluster& cluster;         ///< description of the hardware; never changes during a run
  const ClusterState& state;      ///< owners of GPUs, free GPUs, degraded parts
  const JobTable& jobs;           ///< jobs that wait or run, and jobs whose end `events` contains
  Samples& samples;               ///< telemetry; each read is recorded in the log
  /// True if only steps equal to known ones have passed since the policies called rest()
  /// (PolicyStack::ask_member). A policy always sees false, because true would reveal the future.
  bool resting = false;
};

/// Actions, settings and ticks that a policy needs. For example, a policy that sets shares and
/// requests a call every 50 ms returns
///
///     {.actions = Kinds<Action>::of<Configure>(), .settings = Kinds<Setting>::of<Shares>(),
///      .tick = 50'000'000}
struct Needs {
  Kinds<Action> actions;    ///< kinds of action that the policy may decide
  Kinds<Setting> settings;  ///< settings that the policy may change with Configure
  Nanos tick = 0;           ///< period of Tick events; 0: the policy is called on events only
  /// The policy decides by durations in StepsDone: a simulation that skips ahead reports steps of
  /// unequal duration one by one, as a simulation in full detail does.
  bool step_times = false;
  /// The policy starts jobs on the kinds of GPUs that they may use (JobSpec::gpu_kinds). Without
  /// it, a replay on nodes of several kinds refuses the policy if jobs name kinds.
  bool gpu_kinds = false;
  /// The policy starts jobs on parts of GPUs (Cluster::Shape::slices_per_gpu). Without it, a replay
  /// of a log with parts of GPUs refuses the policy unless a part counts as a whole GPU.
  bool gpu_parts = false;
};
/// Actions and settings that a run supports for at least one job; JobSpec::can lists the settings
/// of one job.
struct Capabilities {
  Kinds<Action> actions;
  Kinds<Setting> settings;
};

/// Services that a policy may use: a random generator and the features of the run.
struct Context {
  Rng& rng;              ///< the policy's own generator, derived from the seed of the run
  Capabilities backend;  ///< actions and settings that the run supports
};

/// Byte string with the saved state of a policy; equal states give equal bytes.
using Archive = std::string;

/// Base class of all policies: a deterministic state machine that observe() advances. Equal
/// observations, parameters and seeds must give equal decisions, because a log is replayed by
/// calling the policy again. Not thread-safe.
///
/// For example, this policy orders a checkpoint of each job that loses a rank:
///
///     void observe(Context&, const Observation& seen, DecisionList& decisions) override {
///       for (const Event& event : seen.events) {
///         const auto* lost = std::get_if<RanksLost>(&event);
///         if (lost != nullptr) decisions.add(Save{lost->job}, "a rank was lost");
///       }
///       decisions.rest();
///     }
class Policy {
 public:
  virtual ~Policy() = default;
  /// Returns the needs of the policy. A run calls needs() after start(), so the result may depend
  /// on the parameters. `orrery list policies` calls needs() without start(): the method must then
  /// return the needs under default parameters.
  virtual Needs needs() const = 0;
  /// Prepares the policy for a run. Called once, before observe() and load(). `parameters`: the
  /// policy's message of parameters.proto with all defaults filled in; null for a policy that no
  /// registry knows. An implementation throws bad_input for parameters that cannot work.
  virtual void start(Context& context, const Cluster& cluster,
                     const google::protobuf::Message* parameters) = 0;
  /// Adds the decisions about one observation to `decisions`. Must not keep references into `seen`.
  /// An exception ends the run, or disables the policy if the run falls back (FallbackPolicy).
  virtual void observe(Context& context, const Observation& seen, DecisionList& decisions) = 0;
  /// Writes all state that influences later decisions into the archive, which is empty at the call.
  /// A policy without state overrides neither save() nor load().
  virtual void save(Archive&) const {}
  /// Replaces the state by the state that save() has written. Called after start(), and after an
  /// observe() whose changes of the state the run discards. An implementation throws an Error for
  /// bytes that end within a value; it need not recognise bytes of another policy or a missing last
  /// entry. After an exception the state is undefined.
  virtual void load(const Archive&) {}
  /// Returns the version of the format in which save() writes the state. A policy raises the number
  /// when load() can no longer read the states of an earlier save(). A saved state of another
  /// version is refused by the name of the policy, unless convert_state() converts the state
  /// (saved_state.hpp).
  virtual std::uint32_t state_version() const { return 0; }
  /// Converts `state`, which save() wrote when state_version() was `version`, to bytes that load()
  /// reads. Returns true if `state` is converted; false if the policy cannot convert that version.
  /// Called after start(), for another version than state_version() only.
  virtual bool convert_state(Archive& /*state*/, std::uint32_t /*version*/) const { return false; }
  /// Returns false if the last observe() changed nothing that save() would write; the policy is
  /// then neither saved nor hashed, which matters for a policy with the state of many ranks.
  virtual bool has_changed() const { return true; }
};

}  // namespace orrery
