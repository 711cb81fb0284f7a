// End that answers the questions of a RemotePolicy in another process, and the messages that this
// end receives. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "policies/record/encoding.hpp"
#include "policies/seam/policy.hpp"
#include "traces/run.pb.h"

namespace orrery {

/// Adapter that answers the questions of another process with a policy of this process.
class PolicyAnswerer {
 public:
  /// Sends a request for telemetry, an answer with a wish, to the process of the run. Returns null
  /// if the request says that the telemetry is in hand; otherwise blocks for the telemetry, which
  /// is valid until the next call.
  using Fetch = std::function<const SamplesRead*(const PolicyAnswer& request)>;

  /// Starts `policy`, which must outlive this object, without parameters (null), with the random
  /// generator that a run with the seed `seed` passes to its policies. Exceptions of start() pass
  /// through.
  PolicyAnswerer(Policy& policy, Cluster cluster, std::uint64_t seed);

  /// Returns the needs of the policy.
  NeedsRecord needs() const;
  /// Returns the saved state of the policy.
  Archive state() const;
  /// Calls the policy and returns its decisions and its saved state; for a question to follow or to
  /// let heirs take over, does that and returns an empty answer or the needs. Call once for each
  /// question, in the order of the observations: the world of this object follows them. `fetch`
  /// is called for each read of telemetry; rows that have not changed since an earlier question
  /// come from this object. Exceptions of the policy and of `fetch` leave this function; throws
  /// bad_input for an impossible observation, and an internal Error if the policy has no heirs.
  PolicyAnswer answer_question(const PolicyQuestion& asked, const Fetch& fetch);

 private:
  Policy& policy_;
  Cluster cluster_;
  ObservationReader reader_;
  Rng rng_;
  Context context_;
  RowsByJob rows_;  ///< newest rows of telemetry
};

/// Replaces `message` by the message in `bytes`, in the memory of `message` if both are telemetry
/// or both are questions. Returns false for bytes that are no WorkerMessage.
bool parse_message(const std::string& bytes, WorkerMessage& message);

}  // namespace orrery
