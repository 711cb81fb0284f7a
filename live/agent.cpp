#include "live/agent.hpp"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/process.hpp"
#include "live/control_client.hpp"
#include "live/grpc_fabric.hpp"
#include "live/protocol.hpp"
#include "live/trainer.hpp"

namespace orrery::live {
namespace {

constexpr std::chrono::milliseconds kProgressPeriod{20};

AgentStart read_start() {
  AgentStart start;
  const std::optional<std::string> bytes = read_message(kChildDescriptor);
  if (!bytes || !start.ParseFromString(*bytes)) {
    throw Error(ErrorKind::usage,
                "`orrery-live agent` is started by a controller, which hands it its orders");
  }
  return start;
}

Hello make_hello(std::uint32_t rank, const AgentStart& start) {
  Hello hello;
  hello.set_protocol(kProtocol);
  hello.set_rank(rank);
  hello.set_pid(getpid());
  hello.set_data_address(start.data_address());
  hello.set_token(start.token());
  return hello;
}

/// Orders that have arrived and are not yet carried out.
class Orders {
 public:
  void add(StepPlan plan) {
    const std::scoped_lock lock(mutex_);
    plans_.push_back(std::move(plan));
    changed_.notify_all();
  }
  void stop(const Stop& stop) {
    const std::scoped_lock lock(mutex_);
    if (!stop_) stop_ = stop;
    changed_.notify_all();
  }
  /// Blocks until there is a plan, or nothing more will come.
  std::optional<StepPlan> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stop_ || !plans_.empty(); });
    if (stop_) return std::nullopt;
    StepPlan plan = std::move(plans_.front());
    plans_.pop_front();
    return plan;
  }
  /// Waits for the order to stop, at most that long.
  std::optional<Stop> wait_for_stop(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience, [this] { return stop_.has_value(); });
    return stop_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<StepPlan> plans_;
  std::optional<Stop> stop_;
};

void report_failure(ControlClient& control, ErrorKind kind, const std::string& reason, bool peer) {
  AgentMessage message;
  message.mutable_failed()->set_kind(static_cast<std::uint32_t>(kind));
  message.mutable_failed()->set_reason(reason);
  message.mutable_failed()->set_peer(peer);
  control.send(message);
}

/// Everything between the assignment and the end.
class Agent {
 public:
  Agent(ControlClient& control, GrpcFabric& fabric, const Assignment& assignment)
      : control_(control),
        fabric_(fabric),
        scenario_(assignment.scenario()),
        text_(Text::load(scenario_.live().text())),
        device_(make_cpu_device(scenario_.run().seed(), scenario_.live().learning_rate())),
        trainer_(scenario_, text_, *device_, fabric),
        addresses_(assignment.data_addresses().begin(), assignment.data_addresses().end()) {}

  void run() {
    const std::jthread reader([this] { read_orders(); });
    {
      const std::jthread sampler([this](const std::stop_token& stop) { report_progress(stop); });
      train();
    }
    // The controller gathers what every rank has to say before it lets any of them go.
    const std::optional<Stop> stop = orders_.wait_for_stop(std::chrono::seconds(10));
    if (stop && stop->want_parameters()) {
      AgentMessage finished;
      finished.mutable_finished()->set_parameters_sha256(device_->parameters_sha256());
      control_.send(finished);
    }
    control_.finish();
  }

 private:
  void train() {
    try {
      fabric_.connect(addresses_);
      AgentMessage ready;
      ready.mutable_ready();
      control_.send(ready);
      while (const std::optional<StepPlan> plan = orders_.next()) {
        AgentMessage message;
        *message.mutable_step_report() = trainer_.run_step(*plan);
        control_.send(message);
      }
    } catch (const Stopped&) {
      return;
    } catch (const FabricBroken& broken) {
      report_failure(control_, ErrorKind::environment, broken.what(), true);
    } catch (const Error& error) {
      report_failure(control_, error.kind(), error.message(), false);
    } catch (const std::exception& error) {
      report_failure(control_, ErrorKind::internal, error.what(), false);
    }
  }

  void read_orders() {
    while (const std::optional<ControllerMessage> message = control_.read()) {
      if (message->has_step_plan()) orders_.add(message->step_plan());
      if (message->has_stop()) end(message->stop());
    }
    Stop gone;
    gone.set_reason("the controller is gone");
    end(gone);
  }

  void end(const Stop& stop) {
    orders_.stop(stop);
    trainer_.stop();
    fabric_.abort(stop.reason());
  }

  void report_progress(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any sleep;
    std::unique_lock lock(mutex);
    while (!sleep.wait_for(lock, stop, kProgressPeriod, [&] { return stop.stop_requested(); })) {
      AgentMessage message;
      *message.mutable_progress() = trainer_.snapshot();
      if (!control_.send(message)) return;
    }
  }

  ControlClient& control_;
  GrpcFabric& fabric_;
  const Scenario scenario_;
  const Text text_;
  const std::unique_ptr<Device> device_;
  Trainer trainer_;
  const std::vector<std::string> addresses_;  ///< where the ranks listen for their neighbours
  Orders orders_;
};

}  // namespace

int run_agent(std::uint32_t rank) {
  const AgentStart start = read_start();
  GrpcFabric fabric(rank, start.ranks(), start.data_address(), start.token());
  ControlClient control(start.controller_address(), make_hello(rank, start));
  const std::optional<ControllerMessage> first = control.read();
  if (!first || !first->has_assignment()) return static_cast<int>(ErrorKind::environment);
  std::optional<Agent> agent;
  try {
    agent.emplace(control, fabric, first->assignment());
  } catch (const Error& error) {
    report_failure(control, error.kind(), error.message(), false);
    control.finish();
    while (control.read()) {  // until the controller has heard it
    }
    return static_cast<int>(error.kind());
  }
  agent->run();
  return 0;
}

}  // namespace orrery::live
