// Worker's end of the connection to the client that started the run: the inbox of the client's
// messages, and the policy that the client answers for. One thread.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policies/handover/hand_over.hpp"
#include "policies/run/policy_meter.hpp"
#include "policies/run/remote_policy.hpp"
#include "traces/run.pb.h"

namespace orrery {

/// Sends a message to the client. Throws an environment Error if the client is gone.
void send_to_client(const WorkerMessage& message);

/// Messages of the client after its request: answers of its policy and verdicts of its operator.
class ClientInbox {
 public:
  /// Blocks for at most `wait_ms` milliseconds (-1: without limit) until a message of the client is
  /// there. Returns true if one is there.
  static bool has_message(int wait_ms);
  /// Blocks until the next message, keeps a verdict for drain_verdicts(), and returns an answer;
  /// nothing for a verdict. Throws an environment Error if the client is gone.
  std::optional<PolicyAnswer> read_answer();
  /// Adds a verdict of another operator.
  void add_verdict(Verdict verdict) { verdicts_.push_back(std::move(verdict)); }
  /// Returns true if the newest verdict is about the decision.
  bool has_verdict_on(DecisionId decision) const {
    return !verdicts_.empty() && verdicts_.back().decision == decision;
  }
  /// Returns the verdicts since the last call, oldest first.
  std::vector<Verdict> drain_verdicts() { return std::exchange(verdicts_, {}); }

 private:
  std::vector<Verdict> verdicts_;
  std::string bytes_;  ///< newest message
};

/// Channel to the policy in the client's process. A call that takes too long is withdrawn.
class ClientChannel : public PolicyChannel {
 public:
  /// Both must outlive the channel.
  ClientChannel(ClientInbox& inbox, PolicyMeter& meter) : inbox_(inbox), meter_(meter) {}

  void send_message(const WorkerMessage& message) override;
  /// Also throws PolicyGivenUp, as PolicyMeter::await_answer(), after it has told the client.
  PolicyAnswer receive_answer() override;

 private:
  ClientInbox& inbox_;
  PolicyMeter& meter_;
  std::string bytes_;  ///< newest message that was sent
};

/// Policy in the client's process.
class ClientPolicy : private ClientChannel, public RemotePolicy {
 public:
  /// `needs`: needs of the policy. `inbox` and `meter` must outlive the policy.
  ClientPolicy(const NeedsRecord& needs, ClientInbox& inbox, PolicyMeter& meter)
      : ClientChannel(inbox, meter), RemotePolicy(static_cast<ClientChannel&>(*this)) {
    set_needs(needs);
  }
};

}  // namespace orrery
