#include "live/rank/agent.hpp"

#include <unistd.h>

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/process.hpp"
#include "live/control/message_check.hpp"
#include "live/control/protocol.hpp"
#include "live/rank/checkpoint_shards.hpp"
#include "live/rank/control_session.hpp"
#include "live/rank/epoch_fabrics.hpp"
#include "live/rank/failure.hpp"
#include "live/rank/gpu_seat.hpp"
#include "live/rank/heartbeat.hpp"
#include "live/rank/rank_state.hpp"
#include "live/rank/task_runner.hpp"
#include "live/run/checkpoints/run_checkpoints.hpp"
#include "live/training/trainer.hpp"
#include "topologies/failure_domain.hpp"

namespace orrery::live {
namespace {

AgentStart read_start() {
  AgentStart start;
  const std::optional<std::string> bytes = orrery::read_message(kChildDescriptor);
  if (!bytes || !start.ParseFromString(*bytes)) {
    throw Error(ErrorKind::usage,
                "expected the orders of a controller on the inherited socket, found none: "
                "`orrery-live agent` is started by the controller; use `orrery live`");
  }
  return start;
}

Hello make_hello(std::uint32_t rank, const AgentStart& start, const Secrets& secrets) {
  Hello hello;
  hello.set_protocol(kProtocol);
  hello.set_rank(rank);
  hello.set_life(start.life());
  hello.set_pid(getpid());
  hello.set_token(secrets.token);
  return hello;
}

std::vector<FailureDomain> domains_of(const Assignment& assignment, std::uint32_t ranks) {
  std::vector<FailureDomain> domains;
  for (const Domain& said : assignment.domains()) domains.push_back({said.rack(), said.node()});
  domains.resize(ranks);
  return domains;
}

std::unique_ptr<GpuSeat> make_gpu_seat(const Assignment& assignment, const AgentStart& start,
                                       std::uint32_t rank) {
  if (assignment.gpus() == 0) return nullptr;
  return std::make_unique<GpuSeat>(rank, start.ranks(), assignment.gpus(), start.secrets());
}

std::unique_ptr<Device> make_device(const Scenario& scenario, const GpuSeat* gpu) {
  if (gpu != nullptr) return gpu->make_device(scenario);
  return make_cpu_device(scenario.run().seed(), scenario.live().learning_rate(),
                         scenario.job().model().builtin());
}

/// Returns the first step of this process. A replacement receives its state from a peer, whose
/// state is newer than any checkpoint.
Step first_step(const AgentStart& start, const Assignment& assignment) {
  return start.begins() ? assignment.resume().step() : 0;
}

std::optional<std::string> checkpoint_folder(const Scenario& scenario) {
  if (!scenario.has_checkpoints()) return {};
  return scenario.checkpoints().folder();
}

/// Agent of one rank from its assignment to the end of the run. Three threads: the caller's thread
/// carries out the control core's tasks, one thread reads the controller's messages, one sends
/// heartbeats. If the control stream ends, the agent opens a new stream while training continues.
class Agent {
 public:
  Agent(ControlSession& session, const AgentStart& start, const Secrets& secrets,
        std::uint32_t rank, const Assignment& assignment)
      : session_(session),
        rank_(rank),
        ranks_(start.ranks()),
        scenario_(assignment.scenario()),
        text_(Text::load(scenario_.live().text())),
        gpu_(make_gpu_seat(assignment, start, rank)),
        device_(make_device(scenario_, gpu_.get())),
        trainer_(scenario_, text_, *device_),
        state_({rank, start.life()}, first_step(start, assignment), scenario_.live().link_rate(),
               {.interrupt = [this] { trainer_.interrupt_step(); },
                .resume = [this] { trainer_.resume_steps(); },
                .tell = [this](const MemberStatus& status) { send(status); }}),
        fabrics_(start.data_address(), secrets, gpu_.get(), scenario_.live().has_link_rate()),
        shards_(assignment.training(), trainer_, device_->gradient().size(),
                checkpoint_folder(scenario_),
                [this](const AgentMessage& message) { session_.send_message(message); }),
        tasks_(rank, domains_of(assignment, start.ranks()),
               {.trainer = trainer_, .state = state_, .shards = shards_, .fabrics = fabrics_},
               [this](const AgentMessage& message) { session_.send_message(message); }) {
    if (state_.applied_steps() > 0) trainer_.restore_state(load_checkpoint(assignment));
  }

  /// Trains until the controller releases this rank. Returns false if a new process of this rank
  /// has to join the run (RankState::has_to_join_again()).
  bool run() {
    AgentMessage ready;
    ready.mutable_ready();
    session_.send_message(ready);
    const std::jthread reader([this] { read_orders(); });
    const HeartbeatSender heartbeat(
        heartbeat_interval(ranks_, scenario_.survival().heartbeat_timeout()), [this] { beat(); });
    do {
      train();
      hand_in();  // The controller has already waited for shards as long as it needed to.
    } while (!state_.wait_for_release());
    session_.finish_stream();
    return !state_.has_to_join_again();
  }

 private:
  void train() {
    const auto save = [this](const SaveShard& order, Step applied) {
      shards_.save(order, applied);
    };
    try {
      while (const std::optional<RankState::Task> task = state_.next(save)) {
        tasks_.carry_out(*task);
      }
    } catch (const std::exception&) {
      fail(failure_of(std::current_exception()));
    }
  }

  void fail(const AgentMessage& failure) {
    state_.mark_failed();
    session_.send_message(failure);
  }

  /// Sends the hash of the parameters, if requested: the controller collects the hashes of all
  /// ranks before it releases any rank. Reports a failure instead if the state is damaged.
  void hand_in() {
    const std::optional<Step> applied = state_.parameters_wanted();
    if (!applied) return;
    try {
      trainer_.verify_state();
    } catch (const StateDamaged&) {
      return fail(failure_of(std::current_exception()));
    }
    AgentMessage finished;
    finished.mutable_finished()->set_applied(*applied);
    finished.mutable_finished()->set_parameters_sha256(device_->parameters_sha256());
    session_.send_message(finished);
  }

  /// Reads the controller's messages until the stream ends. Returns false after an invalid message.
  bool take_orders() {
    while (const std::optional<ControllerMessage> message = session_.read()) {
      if (const char* why = fault_of(*message, rank_, ranks_)) {
        fail(make_failure(
            ErrorKind::internal,
            fmt::format("rank {} received an invalid message of its controller: {}", rank_, why)));
        return false;
      }
      if (message->has_directive()) state_.on_directive(message->directive());
      if (message->has_hardware()) {
        trainer_.set_speed(message->hardware().speed());
        state_.on_hardware(message->hardware());
      }
      if (message->has_save()) state_.add_shard_order(message->save());
      if (message->has_stop()) state_.end(message->stop());
    }
    return true;
  }

  void read_orders() {
    while (take_orders() && session_.reconnect_stream([this] { return !state_.is_released(); })) {
      state_.begin_session();
    }
    state_.lose_controller();
    Stop gone;
    gone.set_reason("the controller is gone");
    state_.end(gone);
  }

  void send(const MemberStatus& status) {
    AgentMessage message;
    *message.mutable_status() = status;
    session_.send_message(message);
  }

  void beat() {
    AgentMessage message;
    Heartbeat& beat = *message.mutable_heartbeat();
    *beat.mutable_status() = state_.status();
    *beat.mutable_progress() = trainer_.snapshot();
    if (gpu_) *beat.mutable_progress()->mutable_device() = gpu_->read();
    session_.send_message(message);
  }

  ControlSession& session_;
  const std::uint32_t rank_, ranks_;
  const Scenario scenario_;
  const Text text_;
  const std::unique_ptr<GpuSeat> gpu_;  ///< GPU of this rank; null on the CPU.
  const std::unique_ptr<Device> device_;
  Trainer trainer_;
  RankState state_;
  const EpochFabrics fabrics_;
  CheckpointShards shards_;
  TaskRunner tasks_;
};

}  // namespace

int run_agent(std::uint32_t rank) {
  const int code = run_agent(rank, read_start());
  return code == kJoinAgain ? static_cast<int>(ErrorKind::environment) : code;
}

int run_agent(std::uint32_t rank, const AgentStart& start) {
  const Secrets secrets = read_secrets(start.secrets(), start.tls());
  ControlSession session(start.controller_address(), secrets, make_hello(rank, start, secrets));
  const std::optional<ControllerMessage> first = session.join();
  if (!first || !first->has_assignment()) return kJoinAgain;
  std::optional<Agent> agent;
  try {
    agent.emplace(session, start, secrets, rank, first->assignment());
  } catch (const Error& error) {
    session.send_message(make_failure(error.kind(), error.message()));
    session.finish_stream();
    // Keep the stream open until the controller has received the failure.
    while (session.read()) {}
    return static_cast<int>(error.kind());
  }
  return agent->run() ? 0 : kJoinAgain;
}

}  // namespace orrery::live
