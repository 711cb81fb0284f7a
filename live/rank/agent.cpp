#include "live/rank/agent.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/process.hpp"
#include "live/checkpoint/shard_writer.hpp"
#include "live/control/control_client.hpp"
#include "live/control/membership_wire.hpp"
#include "live/control/message_check.hpp"
#include "live/control/protocol.hpp"
#include "live/fabric/grpc_fabric.hpp"
#include "live/rank/gpu_seat.hpp"
#include "live/run/run_checkpoints.hpp"
#include "live/training/sharded_optimizer.hpp"
#include "live/training/trainer.hpp"
#include "policies/membership/member.hpp"
#include "policies/record/encoding.hpp"
#include "topologies/failure_domain.hpp"

namespace orrery::live {
namespace {

/// Twice in every 50 ms, the interval at which policies look at the ranks.
constexpr std::chrono::nanoseconds kHeartbeat = std::chrono::milliseconds(25);
constexpr std::uint32_t kFewRanks = 8;
constexpr int kBeatsInTimeout = 5;
constexpr std::chrono::seconds kStopPatience{10};
constexpr std::chrono::seconds kReturnPatience{10};  // for a controller that is gone
constexpr std::chrono::milliseconds kReturnPause{50};

/// So that what the controller hears in a second does not grow with the ranks; often enough for
/// none of them to be taken for lost.
std::chrono::nanoseconds heartbeat_interval(std::uint32_t ranks, Nanos timeout) {
  const auto interval = kHeartbeat * std::max(ranks, kFewRanks) / kFewRanks;
  return std::max(kHeartbeat,
                  std::min(interval, std::chrono::nanoseconds(timeout) / kBeatsInTimeout));
}

AgentStart read_start() {
  AgentStart start;
  const std::optional<std::string> bytes = orrery::read_message(kChildDescriptor);
  if (!bytes || !start.ParseFromString(*bytes)) {
    throw Error(ErrorKind::usage,
                "`orrery-live agent` is started by a controller, which hands it its orders");
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

/// What only this process or its machine lacks.
AgentMessage make_local_failure(const std::string& reason) {
  AgentMessage message;
  message.mutable_failed()->set_kind(static_cast<std::uint32_t>(ErrorKind::environment));
  message.mutable_failed()->set_reason(reason);
  message.mutable_failed()->set_local(true);
  return message;
}

AgentMessage make_failure(ErrorKind kind, const std::string& reason) {
  AgentMessage message;
  message.mutable_failed()->set_kind(static_cast<std::uint32_t>(kind));
  message.mutable_failed()->set_reason(reason);
  return message;
}

/// Waits for the assignment; a controller that dies meanwhile is replaced.
std::optional<ControllerMessage> join(ControlClient& control) {
  const auto deadline = Clock::now() + kReturnPatience;
  std::optional<ControllerMessage> first = control.read();
  while (!first && Clock::now() < deadline) {
    std::this_thread::sleep_for(kReturnPause);
    control.reopen([] { return std::vector<AgentMessage>{}; });
    first = control.read();
  }
  return first;
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

/// Everything between the assignment and the end. Three threads: the caller's does what the
/// control core says, one hears the controller, one sends heartbeats. A control stream that ends is
/// opened again: training goes on meanwhile, and what the controller may have missed is said again.
class Agent {
 public:
  Agent(ControlClient& control, const AgentStart& start, const Secrets& secrets, std::uint32_t rank,
        const Assignment& assignment)
      : control_(control),
        start_(start),
        secrets_(secrets),
        rank_(rank),
        scenario_(assignment.scenario()),
        text_(Text::load(scenario_.live().text())),
        gpu_(make_gpu_seat(assignment, start, rank)),
        device_(gpu_ ? gpu_->make_device(scenario_)
                     : make_cpu_device(scenario_.run().seed(), scenario_.live().learning_rate(),
                                       scenario_.job().model().builtin())),
        trainer_(scenario_, text_, *device_),
        training_(assignment.training()),
        domains_(domains_of(assignment, start.ranks())),
        member_({rank, start.life()}, first_step(start, assignment)) {
    hardware_.set_link_rate(scenario_.live().link_rate());
    if (member_.status().applied > 0) trainer_.restore(load_checkpoint(assignment));
    if (!scenario_.live().has_checkpoints()) return;
    writer_.emplace([this] { return FolderStore::make(scenario_.live().checkpoints().folder()); },
                    [this](const ShardOutcome& outcome) { report(outcome); });
  }

  /// False if the controller was gone for good before it let this rank go.
  bool run() {
    AgentMessage ready;
    ready.mutable_ready();
    control_.send(ready);
    const std::jthread reader([this] { read_orders(); });
    const std::jthread sampler([this](const std::stop_token& stop) { send_heartbeats(stop); });
    do {
      train();
      hand_in();  // the controller has waited for shards as long as it wanted to
    } while (!wait_for_release());
    control_.finish();
    const std::scoped_lock lock(mutex_);
    return !abandoned_;
  }

 private:
  using Task = membership::Task;

  void train() {
    try {
      while (const std::optional<Task> task = next_task()) carry_out(*task);
    } catch (const StateLost& error) {
      AgentMessage failure = make_failure(error.kind(), error.message());
      failure.mutable_failed()->set_state_lost(true);
      fail(failure);
    } catch (const PaceMissed& error) {
      fail(make_failure(error.kind(), error.message()));
    } catch (const Error& error) {
      const bool local = error.kind() == ErrorKind::environment;
      fail(local ? make_local_failure(error.message())
                 : make_failure(error.kind(), error.message()));
    } catch (const std::bad_alloc&) {
      fail(make_local_failure("out of memory"));
    } catch (const std::exception& error) {
      fail(make_failure(ErrorKind::internal, error.what()));
    }
  }

  void fail(const AgentMessage& failure) {
    {
      const std::scoped_lock lock(mutex_);
      failure_ = failure;
    }
    control_.send(failure);
  }

  /// The controller gathers what every rank has to say before it lets any of them go.
  void hand_in() {
    AgentMessage finished;
    {
      const std::scoped_lock lock(mutex_);
      if (!stop_ || !stop_->want_parameters()) return;
      finished.mutable_finished()->set_applied(member_.status().applied);
    }
    finished.mutable_finished()->set_parameters_sha256(device_->parameters_sha256());
    control_.send(finished);
  }

  /// False if the controller that gathered is gone before it let this rank go, and another one has
  /// taken its place.
  bool wait_for_release() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kStopPatience, [this] { return released_ || (!stop_ && !failure_); });
    return released_ || stop_ || failure_;
  }

  /// Blocks until there is something to do. Nothing: the end; what is final has been applied.
  std::optional<Task> next_task() {
    std::unique_lock lock(mutex_);
    const auto called = [this] {
      return stop_ || save_ || member_.task().kind != Task::Kind::none;
    };
    for (changed_.wait(lock, called); save_; changed_.wait(lock, called)) {
      const SaveShard order = *std::exchange(save_, {});
      const Step applied = member_.status().applied;
      lock.unlock();
      save(order, applied);
      lock.lock();
    }
    Task task = member_.task();
    if (stop_ && task.kind != Task::Kind::apply) return std::nullopt;
    trainer_.resume();  // under the lock: what revokes this task comes later and interrupts again
    return task;
  }

  void carry_out(const Task& task) {
    try {
      switch (task.kind) {
        case Task::Kind::none: break;
        case Task::Kind::apply: apply(task); break;
        case Task::Kind::enter: enter(task.epoch); break;
        case Task::Kind::link: link(task); break;
        case Task::Kind::work: work(task); break;
      }
    } catch (const Stopped&) {
      abandon(task);
    } catch (const FabricBroken&) {
      abandon(task);
      change([&] { member_.broke(task.epoch); });
    }
  }

  void apply(const Task& task) {
    trainer_.apply();
    const ShardHeader header = std::exchange(shard_, {});
    if (header.id.attempt != 0 && header.id.step == task.step + 1) {
      writer_->write(header, trainer_.part(header.range()));
    }
    bool gathered = true;
    try {
      trainer_.gather();
    } catch (const FabricBroken&) {  // the update holds all the same
      gathered = false;
    }
    change([&] {
      member_.applied();
      if (!gathered) member_.broke(task.epoch);
    });
  }

  void note(const SaveShard& order) {
    const std::scoped_lock lock(mutex_);
    save_ = order;
    changed_.notify_all();
  }

  void save(const SaveShard& order, Step applied) {
    const ShardHeader header{.id = {training_, order.step(), order.attempt()},
                             .index = order.index(),
                             .count = order.count(),
                             .total = device_->gradient().size()};
    if (writer_ && applied == order.step()) {
      return writer_->write(header, trainer_.part(header.range()));
    }
    report({.header = header, .seal = {}, .failure = "this rank stands at another step"});
  }

  /// A replacement gets its state from a peer, which is further on than any checkpoint.
  static Step first_step(const AgentStart& start, const Assignment& assignment) {
    return start.begins() ? assignment.resume().step() : 0;
  }

  void report(const ShardOutcome& outcome) {
    AgentMessage message;
    ShardWritten& shard = *message.mutable_shard();
    shard.set_attempt(outcome.header.id.attempt);
    shard.set_index(outcome.header.index);
    shard.set_size(outcome.seal.size);
    shard.set_sha256(outcome.seal.sha256);
    shard.set_failure(outcome.failure);
    {
      const std::scoped_lock lock(mutex_);
      shard_said_ = message;
    }
    control_.send(message);
  }

  /// Listens before it says that it has entered: an epoch is agreed on when all listen.
  void enter(std::uint64_t epoch) {
    trainer_.use(nullptr);
    std::shared_ptr<JoiningFabric> old;
    {
      const std::scoped_lock lock(mutex_);
      old.swap(fabric_);
    }
    old.reset();
    const std::shared_ptr<JoiningFabric> fresh = make_fabric(epoch);
    change([&] {
      fabric_ = fresh;
      fabric_->set_link_rate(hardware_.link_rate());
      member_.entered(epoch);
    });
  }

  std::shared_ptr<JoiningFabric> make_fabric(std::uint64_t epoch) const {
    if (gpu_) return gpu_->make_fabric();
    auto fresh = std::make_shared<GrpcFabric>(address(epoch), newest(secrets_));
    // As if each rank had a machine of its own.
    if (scenario_.live().has_link_rate()) fresh->keep_to_streams();
    return fresh;
  }

  void link(const Task& task) {
    if (!wait_for_link(task)) return;
    std::vector<std::string> addresses;
    std::shared_ptr<JoiningFabric> fabric;
    bool current = false;
    {
      const std::scoped_lock lock(mutex_);
      if (member_.newest().epoch != task.epoch) return;
      addresses.assign(order_.addresses().begin(), order_.addresses().end());
      fabric = fabric_;
      current = member_.whole();
    }
    fabric->connect(place(task, rank_), addresses);
    trainer_.use(fabric);
    trainer_.share_state(place(task, task.source), task.share, current, keepers(task));
    change([&] { member_.linked(task.epoch); });
  }

  ShardedOptimizer::Keepers keepers(const Task& task) const {
    std::vector<FailureDomain> members;
    for (const membership::Seat& seat : task.members) members.push_back(domains_.at(seat.rank));
    return copy_keepers(members);
  }

  /// Where a rank stands among the members.
  static std::uint32_t place(const Task& task, std::uint32_t rank) {
    const auto found = std::find_if(task.members.begin(), task.members.end(),
                                    [rank](const auto& seat) { return seat.rank == rank; });
    return static_cast<std::uint32_t>(found - task.members.begin());
  }

  void work(const Task& task) {
    StepPlan plan;
    {
      const std::scoped_lock lock(mutex_);
      if (member_.newest().epoch != task.epoch) return;
      plan = order_.plan();
    }
    if (static_cast<std::size_t>(plan.shares_size()) != task.members.size()) {
      throw Error(ErrorKind::internal, "a plan does not fit the members of its epoch");
    }
    if (plan.has_collectives()) fabric_->use_collectives(decode(plan.collectives()));
    report(trainer_.run_step(plan));  // before the status that says so; also on a new stream
    shard_ = {.id = {training_, plan.step() + 1, plan.checkpoint()},
              .index = place(task, rank_),
              .count = static_cast<std::uint32_t>(task.members.size()),
              .total = device_->gradient().size()};
    change([&] { member_.reduced(task.epoch, task.step); });
  }

  void abandon(const Task& task) {
    if (task.kind == Task::Kind::work) report(trainer_.abandoned());
  }

  void report(StepReport step) {
    AgentMessage message;
    *message.mutable_step_report() = std::move(step);
    {
      const std::scoped_lock lock(mutex_);
      report_ = message;
    }
    control_.send(message);
  }

  /// Where to listen: each epoch has a socket of its own.
  std::string address(std::uint64_t epoch) const {
    const std::string& base = start_.data_address();
    return base.starts_with("unix:") ? fmt::format("{}-{}", base, epoch) : base;
  }

  /// Changes the member's state and tells the controller.
  template <class Change>
  void change(const Change& how) {
    {
      const std::scoped_lock lock(mutex_);
      how();
    }
    send_status();
  }

  MemberStatus status() {
    const std::scoped_lock lock(mutex_);
    MemberStatus status = to_wire(member_.status());
    if (fabric_) status.set_address(fabric_->address());
    return status;
  }

  void send_status() {
    AgentMessage message;
    *message.mutable_status() = status();
    control_.send(message);
  }

  /// Until the stream ends. False after an order that cannot be.
  bool take_orders() {
    while (const std::optional<ControllerMessage> message = control_.read()) {
      if (const char* why = fault_of(*message, rank_, start_.ranks())) {
        fail(make_failure(ErrorKind::internal,
                          fmt::format("rank {} was told nonsense: {}", rank_, why)));
        return false;
      }
      if (message->has_directive()) hear(message->directive());
      if (message->has_hardware()) feel(message->hardware());
      if (message->has_save()) note(message->save());
      if (message->has_stop()) end(message->stop());
    }
    return true;
  }

  void read_orders() {
    while (take_orders() && come_back()) {}
    {
      const std::scoped_lock lock(mutex_);
      abandoned_ = !released_;
    }
    Stop gone;
    gone.set_reason("the controller is gone");
    end(gone);
  }

  /// Finds the controller again, or the one that has taken its place.
  bool come_back() {
    const auto deadline = Clock::now() + kReturnPatience;
    while (Clock::now() < deadline) {
      {
        const std::scoped_lock lock(mutex_);
        if (released_) return false;
      }
      control_.reopen([this] { return last_words(); });
      const std::optional<ControllerMessage> welcome = control_.read();
      if (welcome && welcome->has_assignment()) {
        const std::scoped_lock lock(mutex_);
        stop_.reset();  // it will be said again
        changed_.notify_all();
        return true;
      }
      if (welcome && welcome->has_stop()) return false;  // it has been given up
      std::this_thread::sleep_for(kReturnPause);
    }
    return false;
  }

  /// What may have been lost with a stream; statuses come again by themselves.
  std::vector<AgentMessage> last_words() {
    const std::scoped_lock lock(mutex_);
    std::vector<AgentMessage> words;
    if (report_) words.push_back(*report_);
    if (shard_said_) words.push_back(*shard_said_);
    if (failure_) words.push_back(*failure_);
    return words;
  }

  void hear(const MemberDirective& said) {
    std::shared_ptr<JoiningFabric> revoked;
    {
      const std::scoped_lock lock(mutex_);
      if (member_.hear(from_wire(said))) {
        trainer_.interrupt();
        revoked = fabric_;
      }
      const membership::Directive& newest = member_.newest();
      if (said.epoch() == newest.epoch && said.number() == newest.number) order_ = said;
      changed_.notify_all();
    }
    if (revoked) revoked->abort("its epoch is over");
    send_status();
  }

  /// The hardware is as the faults say: the pace of computation and of sending, or no link.
  void feel(const Hardware& said) {
    std::shared_ptr<JoiningFabric> cut;
    {
      const std::scoped_lock lock(mutex_);
      hardware_ = said;
      trainer_.set_speed(said.speed());
      if (fabric_) fabric_->set_link_rate(said.link_rate());
      if (said.link_down()) cut = fabric_;
      changed_.notify_all();
    }
    if (cut) cut->abort("the link of this rank is down");
  }

  /// False: the epoch is over before the link is up.
  bool wait_for_link(const Task& task) {
    std::unique_lock lock(mutex_);
    const auto over = [&] { return stop_ || member_.newest().epoch != task.epoch; };
    changed_.wait(lock, [&] { return over() || !hardware_.link_down(); });
    return !over();
  }

  void end(const Stop& stop) {
    std::shared_ptr<JoiningFabric> fabric;
    {
      const std::scoped_lock lock(mutex_);
      stop_ = stop;
      released_ = released_ || !stop.want_parameters();
      fabric = fabric_;
      trainer_.interrupt();
      changed_.notify_all();
    }
    if (fabric) fabric->abort(stop.reason());
  }

  void send_heartbeats(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any sleep;
    std::unique_lock lock(mutex);
    const auto interval =
        heartbeat_interval(start_.ranks(), scenario_.survival().heartbeat_timeout());
    do {
      AgentMessage message;
      Heartbeat& beat = *message.mutable_heartbeat();
      *beat.mutable_status() = status();
      *beat.mutable_progress() = trainer_.snapshot();
      if (gpu_) *beat.mutable_progress()->mutable_device() = gpu_->read();
      control_.send(message);
    } while (!sleep.wait_for(lock, stop, interval, [&] { return stop.stop_requested(); }));
  }

  ControlClient& control_;
  const AgentStart& start_;
  const Secrets& secrets_;
  const std::uint32_t rank_;
  const Scenario scenario_;
  const Text text_;
  const std::unique_ptr<GpuSeat> gpu_;  ///< null: on the CPU
  const std::unique_ptr<Device> device_;
  Trainer trainer_;
  const std::string training_;
  const std::vector<FailureDomain> domains_;  ///< by rank
  std::optional<ShardWriter> writer_;
  ShardHeader shard_;  ///< to be written when the step whose sum is held is final

  std::mutex mutex_;  // of everything below
  std::condition_variable changed_;
  membership::Member member_;
  MemberDirective order_;                  ///< newest
  std::shared_ptr<JoiningFabric> fabric_;  ///< of the epoch entered
  Hardware hardware_;                      ///< newest
  std::optional<SaveShard> save_;          ///< to be written between two steps
  std::optional<Stop> stop_;
  bool released_ = false;   ///< nothing more is wanted from this rank
  bool abandoned_ = false;  ///< nobody is left who could release it
  std::optional<AgentMessage> report_, shard_said_, failure_;  ///< newest
};

}  // namespace

int run_agent(std::uint32_t rank) { return run_agent(rank, read_start()); }

int run_agent(std::uint32_t rank, const AgentStart& start) {
  const Secrets secrets = read_secrets(start.secrets(), start.tls());
  ControlClient control(start.controller_address(), secrets, make_hello(rank, start, secrets));
  const std::optional<ControllerMessage> first = join(control);
  if (!first || !first->has_assignment()) return static_cast<int>(ErrorKind::environment);
  std::optional<Agent> agent;
  try {
    agent.emplace(control, start, secrets, rank, first->assignment());
  } catch (const Error& error) {
    control.send(make_failure(error.kind(), error.message()));
    control.finish();
    while (control.read()) {  // until the controller has heard it
    }
    return static_cast<int>(error.kind());
  }
  return agent->run() ? 0 : static_cast<int>(ErrorKind::environment);
}

}  // namespace orrery::live
