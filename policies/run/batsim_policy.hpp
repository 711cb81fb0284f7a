// Policy that lets a scheduler of Batsim decide, a process of its own, by Batsim's protocol (JSON
// over ZeroMQ). Used by `orrery jobs --scheduler`. One thread. Instants (Nanos) are nanoseconds of
// the policy clock; Batsim's are seconds.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/process.hpp"
#include "policies/run/zmq_request.hpp"
#include "policies/seam/policy.hpp"

namespace orrery {

/// Queue policy whose decisions are those of an external scheduler. Each observation is one message
/// with its events; the answer's EXECUTE_JOB events become assignments, at once or at their later
/// timestamps. One GPU is one compute resource. Jobs never share resources, so a scheduler that
/// starts a job on an occupied GPU, changes resources, or kills or registers jobs is an error.
///
/// For example, a job of two GPUs at 5 s gives {"now": 5.0, "events": [{"type": "JOB_SUBMITTED",
/// ...}]}, and the answer [{"type": "EXECUTE_JOB", "data": {"job_id": "w0!3", "alloc": "0-1"}}]
/// starts it on GPUs 0 and 1.
class BatsimPolicy : public Policy {
 public:
  /// Options of the connection.
  struct Options {
    std::string command;  ///< shell command that starts the scheduler; empty: it runs already
    std::string host = "127.0.0.1";
    std::uint16_t port = 28000;
    std::chrono::milliseconds patience = std::chrono::seconds(20);  ///< as of ZmqRequest
  };
  /// Constructs a policy without a scheduler; start() starts it.
  explicit BatsimPolicy(Options options) : options_(std::move(options)) {}
  /// Sends SIMULATION_ENDS, waits for the answer, and ends the scheduler's process; only the last
  /// after an exchange that failed. Errors are ignored.
  ~BatsimPolicy() override;
  BatsimPolicy(const BatsimPolicy&) = delete;
  BatsimPolicy& operator=(const BatsimPolicy&) = delete;

  Needs needs() const override { return {.actions = Kinds<Action>::of<Assign>(), .settings = {}}; }
  /// Starts the scheduler and connects to it. Throws an environment Error if it does not answer in
  /// time.
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  /// Sends the events and carries out the answer. Throws bad_input for an answer that is not valid,
  /// for an event of a type that is not supported, and if a decision was rejected.
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  void save(Archive& archive) const override;

  /// Returns the number of messages sent.
  std::uint64_t messages() const { return messages_; }

 private:
  using Json = nlohmann::ordered_json;
  /// Start of a job at a later instant.
  struct Later {
    JobId job;
    GpuRuns gpus;
  };
  Json events_of(const Observation& seen);
  void carry_out(const Json& answer, const Observation& seen, DecisionList& decisions);
  void execute_job(const Json& event, const Observation& seen, DecisionList& decisions);
  Json send_events(double now_s, Json events);

  const Options options_;
  std::unique_ptr<ChildProcess> scheduler_;
  std::unique_ptr<ZmqRequest> connection_;
  std::uint32_t resources_ = 0;
  bool has_begun_ = false;
  std::uint64_t messages_ = 0, starts_ = 0;
  double now_s_ = 0;
  std::multimap<Nanos, Later> later_;  ///< starts of the newest answers that are still to come
  std::set<Nanos> calls_;              ///< instants of CALL_ME_LATER
};

}  // namespace orrery
