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

/// The changes since the last call, and read-only views of everything known. The spans and
/// references live until observe() returns.
struct Observation {
  Nanos now = 0;
  std::uint64_t sequence = 0;  ///< counts calls from 0
  std::span<const Event> events;
  const Cluster& cluster;
  const ClusterState& state;
  const JobTable& jobs;
  Samples& samples;
  /// Since the policies promised to rest, only steps like those that they had seen have passed
  /// (PolicyStack::ask). No policy is told: it would be an oracle.
  bool resting = false;
};

struct Needs {
  Kinds<Action> actions;
  Kinds<Setting> settings;
  Nanos tick = 0;  ///< period of Tick events; 0: events only
};
/// What a run carries out for some job or other; JobSpec::can says what of it for one job.
struct Capabilities {
  Kinds<Action> actions;
  Kinds<Setting> settings;
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
  /// False: the last observe() has changed nothing that save() would write. Saves a policy of many
  /// ranks to be written and hashed at calls at which it only had a glance.
  virtual bool changed() const { return true; }
};

}  // namespace orrery
