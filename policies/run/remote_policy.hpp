// Policies in another process than their run: the end that asks (RemotePolicy), the end that
// answers (PolicyAnswerer), and a process that serves policies of a user's files (HostPolicy,
// serve_policy). The messages are PolicyQuestion and PolicyAnswer (traces/run.proto); telemetry is
// sent on request. The ends may be chained: a worker asks the command line, which asks a policy
// host. One thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/process.hpp"
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

/// Returns the text of a policy's failure that runs, reports and replays use: for an Error with a
/// place "the policy failed: FILE:LINE: message".
std::string policy_failure(const std::exception& error);

/// Returns the record of the error.
Failure failure_record(const Error& error);
/// Throws the error of the record: bad_input with the place if the record has a file, else an Error
/// of the record's kind; an unknown kind counts as internal.
[[noreturn]] void throw_failure(const Failure& failure);

/// Error of a call to which the run needs no answer any more.
class AnswerWithdrawn : public Error {
 public:
  AnswerWithdrawn() : Error(ErrorKind::environment, "the run does not wait for the policy") {}
};

/// Policy that waits for the answers of another process.
class WaitingPolicy : public Policy {
 public:
  /// Sets the function that returns true once the run does not wait for the answer any more; polled
  /// about ten times a second while the policy starts or decides, which then ends the process and
  /// throws AnswerWithdrawn. The function must be valid until it is replaced: a later start() still
  /// calls it.
  virtual void on_wait(std::function<bool()> withdrawn) = 0;
  /// Tells the other process of a decision that policies beside this one made on the newest
  /// observation. Call once for each, before the next observe().
  virtual void announce_decision(const Decision& decision) = 0;
  /// Lets other policies decide from the next observe() on; needs() returns their needs then.
  /// Throws an internal Error if there are none, and as saved_state.hpp if they refuse the state of
  /// a policy of the same name.
  virtual void activate_heirs();
};

/// Policy in a policy host, a child process that this object starts. start() starts the process, so
/// that each run has new policies.
class HostPolicy : public WaitingPolicy {
 public:
  /// Program of a policy host.
  struct Program {
    std::string path;
    std::vector<std::string> arguments;
    std::string absence;  ///< message for a machine that lacks a part of the program
    /// name of a policy program in messages; its API version must be kPolicyApi. Empty: a Python
    /// host of this version of Orrery.
    std::string name = {};
  };
  /// `interrupted`: polled about ten times a second while the policy decides; the wait ends 2.5 s
  /// after the first true, so that a run has time to end in order.
  HostPolicy(Program program, PolicyHostOrder order, std::function<bool()> interrupted = {});
  ~HostPolicy() override;

  /// Returns the needs that the host has reported. Throws an internal Error before start().
  Needs needs() const override;
  /// Starts the process and blocks until it has made its policy; ends the process of an earlier
  /// start(). Ignores the arguments: the order describes policy and cluster. Throws the error that
  /// the host reports, bad_input for a file without a policy, for a program that is no policy or
  /// has another API version, environment if the host cannot work on this machine; also Interrupted
  /// and AnswerWithdrawn, as observe().
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  /// Forwards the call, and throws, as RemotePolicy::observe(). Call after start(). Throws an
  /// environment Error if the process has ended, Interrupted after `interrupted` has returned true,
  /// and AnswerWithdrawn (on_wait()).
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  /// Writes the state as RemotePolicy::save(). Call after start().
  void save(Archive& archive) const override;
  /// Loads the state as RemotePolicy::load(). Call after start().
  void load(const Archive& archive) override;
  /// See RemotePolicy::follow_observation(). Call after start().
  void follow_observation(const Context& context, const Observation& seen);
  /// See RemotePolicy::announce_decision(). Call after start().
  void announce_decision(const Decision& decision) override;
  void on_wait(std::function<bool()> withdrawn) override { withdrawn_ = std::move(withdrawn); }
  /// See RemotePolicy::announce_others(). Call once after each observe() if other policies decide
  /// too.
  void announce_others(const DecisionList& all);

 private:
  class Host;
  const Program program_;
  const PolicyHostOrder order_;
  const std::function<bool()> interrupted_;
  std::function<bool()> withdrawn_;
  std::unique_ptr<Host> host_;
};

/// Serves one policy on kChildDescriptor until the process that asks is gone; body of a policy
/// host. `make_policy` returns the policy of the order. An exception of `make_policy` or of the
/// policy ends the service and is sent to the asker as the record that `failure_of` returns; no
/// std::exception leaves this function. `api`: API version of a policy program, for the asker;
/// nothing: a host of this version of Orrery.
void serve_policy(const std::function<std::unique_ptr<Policy>(const PolicyHostOrder&)>& make_policy,
                  const std::function<Failure(const std::exception&)>& failure_of,
                  std::optional<std::uint32_t> api = {});

}  // namespace orrery
