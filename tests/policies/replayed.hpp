// Replay of a recorded log to a policy that no registry knows, with the comparisons of
// replay_log().
#pragma once

#include <string>

#include <fmt/format.h>

#include "policies/record/samples_book.hpp"
#include "policies/run/replay.hpp"
#include "policies/seam/drive.hpp"
#include "tests/policies/toy_log.hpp"

namespace orrery::toy {

/// Returns the first difference; empty: the policy has the same observations, and decides the same.
inline std::string replay_to(Policy& policy, const std::string& path, const Cluster& cluster,
                             std::uint64_t seed = 1) {
  const std::vector<LogRecord> log = read_log(path);
  ObservationReader reader(cluster);
  SamplesBook samples;
  Rng rng = policy_rng(seed);
  Context context{rng, {}};
  policy.start(context, cluster, nullptr);
  DecisionList decisions;
  for (std::size_t i = 1; i + 1 < log.size(); ++i) {
    const CallRecord& call = log[i].call();
    samples.clear();
    for (const SamplesRead& read : call.read()) samples.add(read);
    decisions.clear();
    policy.observe(context, reader.read(call.observation(), samples), decisions);
    CallRecord again;
    for (const Decision& decision : decisions.items()) {
      reader.world().announce_decision(decision);
      encode(decision, *again.add_decisions());
    }
    for (const Nanos at : decisions.wake_times()) again.add_wakes(at);
    *again.mutable_observation() = call.observation();
    *again.mutable_read() = call.read();
    again.set_state_digest(state_digest(policy));
    again.set_at_rest(decisions.is_resting());
    if (again.SerializeAsString() == call.SerializeAsString()) continue;
    return fmt::format("call {}: {} instead of {}", i - 1, again.ShortDebugString(),
                       call.ShortDebugString());
  }
  return {};
}

}  // namespace orrery::toy
