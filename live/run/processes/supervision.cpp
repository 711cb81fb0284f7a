#include "live/run/processes/supervision.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "core/error.hpp"
#include "core/process.hpp"

namespace orrery::live {

Supervision::Supervision(int descriptor) : descriptor_(descriptor) {
  const std::optional<std::string> bytes = read_message(descriptor_);
  SupervisorMessage first;
  if (!bytes || !first.ParseFromString(*bytes) || !first.has_start()) {
    throw Error(ErrorKind::usage,
                "expected a supervisor on the inherited socket, found none: `orrery-live "
                "controller` is started by its supervisor; use `orrery live`");
  }
  start_ = first.start();
  reader_ = std::thread([this] { read(); });
}

Supervision::~Supervision() {
  shutdown(descriptor_, SHUT_RDWR);
  reader_.join();
  close(descriptor_);
}

void Supervision::read() {
  while (const std::optional<std::string> bytes = read_message(descriptor_)) {
    SupervisorMessage message;
    ensure(message.ParseFromString(*bytes), "expected a SupervisorMessage");
    const std::scoped_lock lock(mutex_);
    if (message.has_stop()) stop_ = message.stop();
    renewed_ = renewed_ || message.renewed();
    if (!message.has_ended()) continue;
    if (listener_) {
      listener_(message.ended());
    } else {
      unheard_.push_back(message.ended());
    }
  }
}

void Supervision::send_order(const SupervisorOrder& order) {
  if (write_message(descriptor_, order.SerializeAsString())) return;
  throw Error(ErrorKind::environment, "the supervisor of this run has ended");
}

std::optional<StopRun> Supervision::take_stop() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(stop_, std::nullopt);
}

bool Supervision::take_renewed() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(renewed_, false);
}

void Supervision::forbid_restart(const std::string& reason) {
  SupervisorOrder order;
  order.set_final(reason);
  send_order(order);
}

void Supervision::start(std::uint32_t rank, const AgentStart& start) {
  SupervisorOrder order;
  order.mutable_start()->set_rank(rank);
  *order.mutable_start()->mutable_start() = start;
  send_order(order);
}

void Supervision::signal(const membership::Seat& seat, int number) {
  SupervisorOrder order;
  order.mutable_signal()->set_rank(seat.rank);
  order.mutable_signal()->set_life(seat.life);
  order.mutable_signal()->set_number(number);
  send_order(order);
}

std::vector<AgentState> Supervision::states() {
  return {start_.agents().begin(), start_.agents().end()};
}

void Supervision::set_exit_callback(std::function<void(const AgentState&)> ended) {
  const std::scoped_lock lock(mutex_);
  listener_ = std::move(ended);
  if (!listener_) return;
  for (const AgentState& each : std::exchange(unheard_, {})) listener_(each);
}

}  // namespace orrery::live
