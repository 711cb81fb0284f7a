// The seam. A policy is a deterministic state machine: observation in, decisions out. It owns no
// clock, thread, socket, file or random source; time is a field of the observation, randomness a
// generator handed over. The simulator, real processes and a recorded log all stand behind the
// same Backend (backend.hpp), and one loop (drive.hpp) joins the two. Nothing here tells a policy
// which of them it is talking to.
//
// To write a policy: subclass Policy, say in needs() what it decides, keep state in members,
// register it by name (run/registry.cpp). One thread calls it; calls never overlap.
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

/// Input of one call: the changes since the last call, and read-only views of the complete known
/// state. Spans and references are valid until observe() returns.
struct Observation {
  Nanos now = 0;
  std::uint64_t sequence = 0;  ///< counts calls from 0
  std::span<const Event> events;
  const Cluster& cluster;
  const ClusterState& state;
  const JobTable& jobs;
  Samples& samples;
  /// True if only steps equal to known ones have passed since the policies called rest()
  /// (PolicyStack::ask_member). Not shown to policies: it would reveal the future.
  bool resting = false;
};

/// Actions, settings and ticks that a policy needs.
struct Needs {
  Kinds<Action> actions;
  Kinds<Setting> settings;
  Nanos tick = 0;  ///< period of Tick events; 0: events only
};
/// Actions and settings that a run supports for at least one job; JobSpec::can lists the settings
/// of one job.
struct Capabilities {
  Kinds<Action> actions;
  Kinds<Setting> settings;
};

/// Services that a policy may use: a random generator and the run's features.
struct Context {
  Rng& rng;
  Capabilities backend;
};

/// Byte string with the saved state of a policy; equal states give equal bytes.
using Archive = std::string;

/// Base class of all policies: a deterministic state machine with one entry point.
class Policy {
 public:
  virtual ~Policy() = default;
  /// Returns the needs of the policy; may depend on its parameters, so it is called after start().
  virtual Needs needs() const = 0;
  /// Prepares the policy for a run. Called once, before any other method except the constructor.
  virtual void start(Context& context, const Cluster& cluster,
                     const google::protobuf::Message* parameters) = 0;
  /// Decides about one observation. The only entry point; must not keep references into `seen`.
  virtual void observe(Context& context, const Observation& seen, DecisionList& decisions) = 0;
  /// Writes all state that influences later decisions; a stateless policy overrides neither method.
  virtual void save(Archive&) const {}
  /// Restores the state that save() has written.
  virtual void load(const Archive&) {}
  /// Returns false if the last observe() has changed nothing that save() would write. Spares a
  /// policy of many ranks from being saved and hashed after calls without effect.
  virtual bool has_changed() const { return true; }
};

}  // namespace orrery
