// Policies in a policy host, a process that serves policies of a user's files: the end that asks
// (HostPolicy), and the body of the host (serve_policy). One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policies/run/waiting_policy.hpp"
#include "policies/seam/policy.hpp"
#include "traces/run.pb.h"

namespace orrery {

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
