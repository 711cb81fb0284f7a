#include "live/agent_group.hpp"

#include <algorithm>
#include <csignal>

#include <fmt/format.h>

#include "core/error.hpp"
#include "live/token.hpp"

namespace orrery::live {
namespace {

constexpr std::chrono::seconds kStartPatience{30};
constexpr std::chrono::milliseconds kExplainPatience{500};
constexpr std::chrono::milliseconds kStopPatience{2000};
constexpr std::chrono::milliseconds kPoll{20};

std::string socket_address(const RunFolder& folder, const std::string& name) {
  return "unix:" + folder.path() + "/" + name;
}

}  // namespace

AgentGroup::AgentGroup(const std::string& program, const Scenario& scenario, std::uint32_t ranks)
    : token_(make_token()), size_(ranks) {
  server_ = std::make_unique<ControlServer>(
      socket_address(folder_, "controller"), token_, ranks,
      [this](std::uint32_t rank, const AgentMessage* message) {
        Incoming incoming{.rank = rank, .message = {}, .at = Clock::now()};
        if (message) incoming.message = *message;
        const std::scoped_lock lock(mutex_);
        mailbox_.push_back(std::move(incoming));
        arrived_.notify_all();
      });
  start_agents(program);
  assign(scenario);
  folder_.remove();
}

AgentGroup::~AgentGroup() {
  send_stop("the run is over", false);
  const auto deadline = Clock::now() + kStopPatience;
  for (ChildProcess& agent : agents_) {
    using std::chrono::milliseconds;
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    agent.wait_for(std::max(left, milliseconds(0)));
  }
  server_.reset();
}

void AgentGroup::start_agents(const std::string& program) {
  for (std::uint32_t rank = 0; rank < size_; ++rank) {
    const std::vector<std::string> arguments{"agent", "--rank", std::to_string(rank)};
    agents_.emplace_back(program, arguments);
    AgentStart start;
    start.set_token(token_);
    start.set_controller_address(socket_address(folder_, "controller"));
    start.set_data_address(socket_address(folder_, fmt::format("rank-{}", rank)));
    start.set_ranks(size_);
    if (!write_message(agents_.back().channel(), start.SerializeAsString())) {
      throw Error(ErrorKind::environment, fmt::format("the agent of rank {} did not start", rank));
    }
  }
}

void AgentGroup::assign(const Scenario& scenario) {
  ControllerMessage message;
  Assignment& assignment = *message.mutable_assignment();
  *assignment.mutable_scenario() = scenario;
  for (const AgentMessage& agent : collect(AgentMessage::kHello)) {
    assignment.add_data_addresses(agent.hello().data_address());
  }
  for (std::uint32_t rank = 0; rank < size_; ++rank) send(rank, message);
  collect(AgentMessage::kReady);
}

std::vector<AgentMessage> AgentGroup::collect(AgentMessage::KindCase kind) {
  std::vector<AgentMessage> found(size_);
  std::uint32_t missing = size_;
  const auto deadline = Clock::now() + kStartPatience;
  while (missing > 0) {
    for (const Incoming& incoming : receive(Clock::now() + kPoll)) {
      if (!incoming.message || incoming.message->has_failed()) {
        const RankDeath death = explain(incoming.rank);
        throw Error(ErrorKind::environment, fmt::format("rank {}: {}", death.rank, death.cause));
      }
      if (incoming.message->kind_case() != kind) continue;
      if (found[incoming.rank].kind_case() != kind) --missing;
      found[incoming.rank] = *incoming.message;
    }
    if (auto death = find_death(); death && missing > 0) {
      death = explain(death->rank);  // it may have said why
      throw Error(ErrorKind::environment, fmt::format("rank {}: {}", death->rank, death->cause));
    }
    if (Clock::now() > deadline) {
      throw Error(ErrorKind::environment, fmt::format("{} of {} agents did not start in {} s",
                                                      missing, size_, kStartPatience.count()));
    }
  }
  return found;
}

std::vector<Incoming> AgentGroup::receive(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  arrived_.wait_until(lock, deadline, [this] { return !mailbox_.empty(); });
  std::vector<Incoming> out;
  out.swap(mailbox_);
  for (const Incoming& incoming : out) {
    if (incoming.message && incoming.message->has_failed()) said_.push_back(incoming);
  }
  return out;
}

void AgentGroup::send(std::uint32_t rank, const ControllerMessage& message) {
  server_->send(rank, message);  // a stream that has ended is in the mailbox already
}

void AgentGroup::send_stop(const std::string& reason, bool want_parameters) {
  ControllerMessage message;
  message.mutable_stop()->set_reason(reason);
  message.mutable_stop()->set_want_parameters(want_parameters);
  for (std::uint32_t rank = 0; rank < size_; ++rank) send(rank, message);
}

void AgentGroup::kill(std::uint32_t rank) { agents_.at(rank).signal(SIGKILL); }

std::optional<RankDeath> AgentGroup::find_death() {
  for (std::uint32_t rank = 0; rank < agents_.size(); ++rank) {
    if (const auto status = agents_[rank].poll()) {
      return RankDeath{.rank = rank, .cause = status->describe()};
    }
  }
  return std::nullopt;
}

RankDeath AgentGroup::explain(std::uint32_t suspect) {
  const auto deadline = Clock::now() + kExplainPatience;
  while (Clock::now() < deadline) {
    const auto death = find_death();  // first: what it has said has arrived by then
    receive(death ? Clock::now() : Clock::now() + kPoll);
    for (const Incoming& incoming : said_) {
      const Failed& failed = incoming.message->failed();
      if (!failed.peer()) throw Error(static_cast<ErrorKind>(failed.kind()), failed.reason());
    }
    if (death) return *death;
  }
  for (const Incoming& incoming : said_) {
    if (incoming.rank == suspect) return {suspect, incoming.message->failed().reason()};
  }
  return {suspect, "its control stream ended"};
}

}  // namespace orrery::live
