#include "live/agent_group.hpp"

#include <algorithm>
#include <csignal>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

constexpr std::chrono::seconds kStartPatience{30};
constexpr std::chrono::milliseconds kExplainPatience{500};
constexpr std::chrono::milliseconds kStopPatience{2000};
constexpr std::chrono::milliseconds kPoll{20};
constexpr std::chrono::milliseconds kBuryPatience{200};

/// A socket in the run's folder, or a free port of the address that the scenario names.
std::string address_for(const Scenario& scenario, const RunFolder& folder,
                        const std::string& name) {
  const std::string& host = scenario.live().listen();
  return host.empty() ? "unix:" + folder.path() + "/" + name : host + ":0";
}

}  // namespace

AgentGroup::AgentGroup(const std::string& program, const Assignment& assignment,
                       std::uint32_t ranks)
    : program_(program),
      secrets_(make_secrets(assignment.scenario().live().tls())),
      size_(ranks),
      connected_(ranks, false),
      speaking_(ranks, 0),
      lives_(ranks, 0),
      buried_(ranks, false) {
  *assignment_.mutable_assignment() = assignment;
  write_secrets(secrets_, folder_.path());
  server_ = std::make_unique<ControlServer>(
      address_for(assignment.scenario(), folder_, "controller"), secrets_, ranks,
      [this](std::uint32_t rank, const AgentMessage* message) {
        Incoming incoming{.rank = rank, .life = 0, .message = {}, .at = Clock::now()};
        if (message) incoming.message = *message;
        const std::scoped_lock lock(mutex_);
        if (message && message->has_hello()) speaking_[rank] = message->hello().life();
        incoming.life = speaking_[rank];
        connected_[rank] = message != nullptr;
        mailbox_.push_back(std::move(incoming));
        arrived_.notify_all();
      });
  for (std::uint32_t rank = 0; rank < size_; ++rank) start_agent(rank);
  await(AgentMessage::kReady);
}

AgentGroup::~AgentGroup() {
  send_stop("the run is over", false);
  const auto deadline = Clock::now() + kStopPatience;
  for (std::uint32_t rank = 0; rank < agents_.size(); ++rank) {
    using std::chrono::milliseconds;
    if (!connected(rank)) agents_[rank].signal(SIGKILL);  // it has not heard the order to stop
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    agents_[rank].wait_for(std::max(left, milliseconds(0)));
  }
  server_.reset();
}

void AgentGroup::start_agent(std::uint32_t rank) {
  ChildProcess agent(program_, {"agent", "--rank", std::to_string(rank)});
  AgentStart start;
  const Scenario& scenario = assignment_.assignment().scenario();
  const std::string name = fmt::format("rank-{}.{}", rank, lives_[rank]);
  start.set_secrets(folder_.path());
  start.set_tls(secrets_.encrypted());
  start.set_controller_address(server_->address());
  start.set_data_address(address_for(scenario, folder_, name));
  start.set_ranks(size_);
  start.set_life(lives_[rank]);
  if (!write_message(agent.channel(), start.SerializeAsString())) {
    throw Error(ErrorKind::environment, fmt::format("the agent of rank {} did not start", rank));
  }
  if (rank == agents_.size()) {
    agents_.push_back(std::move(agent));
  } else {
    agents_[rank] = std::move(agent);
  }
}

void AgentGroup::await(AgentMessage::KindCase kind) {
  std::vector<bool> found(size_, false);
  std::uint32_t missing = size_;
  const auto deadline = Clock::now() + kStartPatience;
  while (missing > 0) {
    for (const Incoming& incoming : receive(Clock::now() + kPoll)) {
      if (!incoming.message || incoming.message->has_failed()) {
        const RankDeath death = explain(incoming.rank);
        throw Error(ErrorKind::environment, fmt::format("rank {}: {}", death.rank, death.cause));
      }
      if (incoming.message->kind_case() != kind || found[incoming.rank]) continue;
      found[incoming.rank] = true;
      --missing;
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
}

std::vector<Incoming> AgentGroup::receive(Clock::time_point deadline) {
  std::vector<Incoming> out;
  {
    std::unique_lock lock(mutex_);
    arrived_.wait_until(lock, deadline, [this] { return !mailbox_.empty(); });
    out.swap(mailbox_);
  }
  for (const Incoming& incoming : out) {
    if (incoming.message && incoming.message->has_failed()) said_.push_back(incoming);
    if (incoming.message && incoming.message->has_hello()) send(incoming.rank, assignment_);
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

void AgentGroup::signal(std::uint32_t rank, int number) { agents_.at(rank).signal(number); }

bool AgentGroup::connected(std::uint32_t rank) {
  const std::scoped_lock lock(mutex_);
  return connected_.at(rank);
}

std::string AgentGroup::bury(std::uint32_t rank) {
  ChildProcess& agent = agents_.at(rank);
  const bool by_itself = agent.wait_for(kBuryPatience).has_value();
  if (!by_itself) agent.signal(SIGKILL);
  buried_[rank] = true;
  const ExitStatus status = agent.wait();
  return by_itself ? status.describe() : "lost its control stream";
}

bool AgentGroup::restart(std::uint32_t rank) {
  ensure(buried_.at(rank), "a rank has one process");
  if (connected(rank)) return false;
  ++lives_[rank];
  buried_[rank] = false;
  start_agent(rank);
  return true;
}

std::vector<RankDeath> AgentGroup::take_deaths() {
  std::vector<RankDeath> deaths;
  for (std::uint32_t rank = 0; rank < agents_.size(); ++rank) {
    if (buried_[rank] || !agents_[rank].poll()) continue;
    deaths.push_back({.rank = rank, .cause = bury(rank)});
  }
  return deaths;
}

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
      throw Error(static_cast<ErrorKind>(failed.kind()), failed.reason());
    }
    if (death) return *death;
  }
  return {suspect, "its control stream ended"};
}

}  // namespace orrery::live
