#include "cli/shared/rehearsed_roles.hpp"

#include <poll.h>

#include <cerrno>
#include <map>
#include <optional>

#include <nlohmann/json.hpp>

#include "cli/shared/role_exchange.hpp"

namespace orrery::cli {
namespace {

using Json = nlohmann::json;

/// Service for the processes of a rehearsal.
class Service {
 public:
  Service(std::map<std::uint32_t, ChildProcess>& children, PriceServer& server,
          RoleExchange& exchange)
      : children_(children), server_(server), exchange_(exchange) {
    for (const auto& [rank, child] : children) open_.push_back(rank);
  }

  /// Answers questions until all processes have closed their sockets, or one needs other ranks.
  /// Returns the ranks in the order in which they closed.
  std::vector<std::uint32_t> run() {
    while (!open_.empty() && exchange_.needed_ranks().empty()) {
      for (const std::uint32_t rank : readable_ranks()) serve(rank);
    }
    return closed_;
  }

 private:
  std::vector<std::uint32_t> readable_ranks() {
    std::vector<pollfd> waits;
    for (const std::uint32_t rank : open_) {
      waits.push_back({children_.at(rank).channel(), POLLIN, 0});
    }
    while (poll(waits.data(), waits.size(), -1) < 0 && errno == EINTR) {}
    std::vector<std::uint32_t> ready;
    for (std::size_t i = 0; i < waits.size(); ++i) {
      if (waits[i].revents != 0) ready.push_back(open_[i]);
    }
    return ready;
  }

  void serve(std::uint32_t rank) {
    const std::optional<std::string> text = read_message(children_.at(rank).channel());
    if (!text) {
      std::erase(open_, rank);
      closed_.push_back(rank);
      send(exchange_.end_rank(rank));
      return;
    }
    const Json question = Json::parse(*text, nullptr, false);
    if (!RoleExchange::is_exchange(question)) {
      write_message(children_.at(rank).channel(), server_.answer_question(*text));
      return;
    }
    try {
      send(exchange_.answer_question(rank, question));
    } catch (const Json::exception& error) {
      send({{rank, Json{{"error", error.what()}}}});
    }
  }

  /// A process that is gone closes its socket, which the next poll finds.
  void send(const std::vector<RoleExchange::Answer>& answers) {
    for (const auto& [rank, answer] : answers) {
      write_message(children_.at(rank).channel(), answer.dump());
    }
  }

  std::map<std::uint32_t, ChildProcess>& children_;
  PriceServer& server_;
  RoleExchange& exchange_;
  std::vector<std::uint32_t> open_, closed_;
};

}  // namespace

RolesOutcome run_roles(const RehearsedProgram& program, const std::vector<std::uint32_t>& ranks,
                       PriceServer& server) {
  std::map<std::uint32_t, ChildProcess> children;
  for (const std::uint32_t rank : ranks) {
    program.prepare(rank);
    children.emplace(rank, ChildProcess(program.path, program.arguments));
  }
  RoleExchange exchange(ranks);
  const std::vector<std::uint32_t> order = Service(children, server, exchange).run();
  RolesOutcome outcome;
  outcome.needed.assign(exchange.needed_ranks().begin(), exchange.needed_ranks().end());
  if (!outcome.needed.empty()) return outcome;
  outcome.status = children.at(ranks.front()).wait();
  for (const std::uint32_t rank : order) {
    const ExitStatus status = children.at(rank).wait();
    if (status.code == 0) continue;
    outcome.status = status;
    break;
  }
  return outcome;
}

}  // namespace orrery::cli
