// Policy whose observations are answered by another process: the end that asks. The messages are
// PolicyQuestion and PolicyAnswer (traces/run.proto); telemetry is sent on request. The other end
// is PolicyAnswerer. The ends may be chained: a worker asks the command line, which asks a policy
// host. One thread.
#pragma once

#include <set>
#include <tuple>

#include "policies/record/encoding.hpp"
#include "policies/seam/policy.hpp"
#include "traces/run.pb.h"

namespace orrery {

/// Connection to a process that answers for a policy.
class PolicyChannel {
 public:
  virtual ~PolicyChannel() = default;
  /// Sends a question, or telemetry that the other process requested. Throws an environment Error
  /// if the other process is gone.
  virtual void send_message(const WorkerMessage& message) = 0;
  /// Blocks until the next message of the other process and returns it. Throws as send_message().
  virtual PolicyAnswer receive_answer() = 0;
};

/// Policy whose observations are answered by another process.
class RemotePolicy : public Policy {
 public:
  /// `channel` must outlive the policy.
  explicit RemotePolicy(PolicyChannel& channel) : channel_(channel) {}

  /// Sets the needs of the policy in the other process. Unknown kinds are kept, so that drive()
  /// finds them.
  void set_needs(const NeedsRecord& needs) { needs_ = decode(needs); }
  /// Returns the needs of the newest set_needs(); none before.
  Needs needs() const override { return needs_; }
  /// Does nothing: the other process starts its policy.
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
  /// Sends the observation, answers the requests for telemetry, blocks for the answer and adds its
  /// decisions with new ids. If the policy in the other process failed, throws the error that the
  /// other process reports, with the place if it is known, or bad_input with its text. Also throws
  /// as the channel.
  /// Rows of telemetry that the other process holds are sent again only if they have changed.
  /// Columns that the policy has read at both of the last calls are sent with the observation, if
  /// the source allows (Samples::unrecorded()); they are read from `seen` once the policy reads
  /// them.
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  /// Writes the state of the newest answer or of the newest load(); that of set_state() before the
  /// first, empty without one.
  void save(Archive& archive) const override { archive = state_; }
  /// Sends the state with the next question; the other process loads it before it answers, and
  /// refuses it as saved_state.hpp says.
  void load(const Archive& archive) override;
  /// Sets the state of the policy in the other process before the first question.
  void set_state(const Archive& archive) { state_ = archive; }

  /// Sends the observation without calling the policy, and blocks until the world of the other
  /// process has followed. Throws as the channel.
  void follow_observation(const Context& context, const Observation& seen);
  /// Sends a decision that another policy made on the newest observation with the next question:
  /// the outcome is an event of the other process too. Call once for each decision, after observe()
  /// or follow_observation(): the other process refuses a decision that is announced twice.
  void announce_decision(const Decision& decision);
  /// Calls announce_decision() for the decisions of `all` that other policies made. Call at most
  /// once after each observe().
  void announce_others(const DecisionList& all);
  /// Lets the heirs in the other process take over (WaitingPolicy::activate_heirs()), reads their
  /// needs into needs() and returns them. Throws as observe().
  Needs activate_heirs();

 private:
  PolicyChannel& channel_;
  Needs needs_;
  DecisionId own_begin_ = 0, own_end_ = 0;  ///< ids of the newest own decisions
  /// Fills the question with the observation, and with the offered features in the first call.
  PolicyQuestion& fill_question(const Context& context, const Observation& seen);
  /// Adds the columns to the question that the policy will probably read.
  void add_likely_reads(Samples& samples, PolicyQuestion& question);
  /// Reads the telemetry that the newest answer asks for, and sends it unless it is in hand.
  void answer_wish(Samples& samples);
  /// Throws the error that the answer reports; does nothing without one.
  static void throw_raised(const PolicyAnswer& answer);

  WorkerMessage message_;
  WorkerMessage samples_;  ///< newest telemetry; its memory is that of the next
  PolicyAnswer answer_;
  RowsByJob sent_rows_;  ///< rows that the other process may hold
  /// Keys (what, job, column of SamplesRead) of the columns that the policy has read in the newest
  /// call and in the call before, whose rows the other process held.
  std::set<std::tuple<SamplesRead::What, std::uint32_t, std::uint32_t>> reads_, reads_before_;
  Archive state_;  ///< state of the newest answer or load()
};

}  // namespace orrery
