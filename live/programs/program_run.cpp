#include "live/programs/program_run.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "core/files/temporary_folder.hpp"
#include "live/group/frames.hpp"
#include "live/programs/key_value_store.hpp"
#include "live/programs/rank_process.hpp"
#include "live/programs/replacements.hpp"

namespace orrery::live {
namespace {

constexpr int kTickMilliseconds = 50;
constexpr double kTermGrace_s =
    1;  ///< grace between SIGTERM and SIGKILL when the run ends the ranks
constexpr double kSignalGrace_s = 10;  ///< grace after a signal to the run
constexpr int kRefused = static_cast<int>(ErrorKind::environment);

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Descriptor listening_socket(const std::string& path) {
  Descriptor listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    throw Error(ErrorKind::environment,
                fmt::format("{}: expected a path of at most {} bytes: set TMPDIR to a shorter one",
                            path, sizeof address.sun_path - 1));
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  if (bind(listener.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener.number(), SOMAXCONN) != 0) {
    throw Error(ErrorKind::environment,
                fmt::format("{}: cannot listen: {}", path, std::strerror(errno)));
  }
  return listener;
}

/// Connection of a rank to the store.
struct StoreConnection {
  Descriptor socket;
  FrameReader reader;
};

class ProgramRun {
 public:
  explicit ProgramRun(const ProgramSettings& settings)
      : settings_(settings),
        begin_s_(now_s()),
        book_(settings.ranks, settings.heartbeat_limit_s, begin_s_),
        listener_(listening_socket(folder_.path_of("store"))) {}

  ProgramOutcome run() {
    for (std::size_t rank = 0; rank < settings_.ranks; ++rank) {
      ranks_.push_back(start_rank(settings_.start, {rank, folder_.path_of("store")}));
    }
    while (book_.running() > 0) {
      wait_for_news();
      reap_ranks();
      replacements_.watch_process(now_s(), ends_);
      watch_time();
    }
    replacements_.kill_process();
    int code = plain_code_ != 0 ? plain_code_ : book_.exit_code();
    if (!refused_.empty()) code = kRefused;
    return {std::move(book_), refused_, signal_, now_s() - begin_s_, replacements_.started(), code};
  }

 private:
  /// Blocks until a message or the end of a process, for one tick at most, and handles messages.
  void wait_for_news() {
    std::vector<pollfd> waiting{{listener_.number(), POLLIN, 0}};
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (book_.has_ended(rank)) continue;
      add_waiting(waiting, ranks_[rank]);
    }
    replacements_.add_waiting(waiting);
    for (const auto& [id, connection] : connections_) {
      waiting.push_back({connection.socket.number(), POLLIN, 0});
    }
    poll(waiting.data(), waiting.size(), kTickMilliseconds);
    if (waiting[0].revents != 0) accept_connection();
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (!book_.has_ended(rank) && ranks_[rank].is_open) read_rank(rank);
    }
    if (replacements_.read_messages(now_s())) complete_join();
    serve_store();
  }

  void accept_connection() {
    const int accepted = accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC);
    if (accepted >= 0) {
      connections_.emplace(next_connection_++, StoreConnection{Descriptor(accepted), {}});
    }
  }

  void serve_store() {
    std::vector<StoreAnswer> answers = store_.expire_requests(now_s());
    for (auto at = connections_.begin(); at != connections_.end();) {
      StoreConnection& connection = at->second;
      const bool open = receive_bytes(connection.socket.number(), connection.reader);
      while (const auto request = connection.reader.next_frame()) {
        const auto more = store_.answer_request(at->first, *request, now_s());
        answers.insert(answers.end(), more.begin(), more.end());
      }
      if (open && !connection.reader.is_torn()) {
        ++at;
        continue;
      }
      store_.forget_connection(at->first);
      at = connections_.erase(at);
    }
    for (const StoreAnswer& answer : answers) {
      const auto to = connections_.find(answer.connection);
      if (to != connections_.end()) send_frame(to->second.socket.number(), answer.fields);
    }
  }

  void read_rank(std::size_t rank) {
    const std::string problem = read_messages(
        ranks_[rank], [this, rank](const Fields& fields) { handle_message(rank, fields); });
    if (!problem.empty()) {
      settings_.print_line(fmt::format("rank {} sent a message that is none: {}", rank, problem));
    }
  }

  void handle_message(std::size_t rank, const Fields& fields) {
    const std::string& kind = fields.at(0);
    book_.record_beat(rank, now_s());
    if (kind == "hello") {
      book_.record_hello(rank, now_s());
      tell_epoch(rank);
    } else if (kind == "step") {
      book_.record_step(rank, std::stoull(fields.at(1)), std::stod(fields.at(2)),
                        std::stod(fields.at(3)));
    } else if (kind == "settled") {
      book_.record_settled(rank, std::stoull(fields.at(1)));
    } else if (kind == "problem") {
      book_.record_problem(std::stoull(fields.at(1)), now_s());
      problem_ = fields.at(2);
    } else if (kind == "plain") {
      if (book_.plain_reason().empty()) {
        settings_.print_line(
            fmt::format("not attached: {}; a lost rank ends the run", fields.at(1)));
      }
      book_.record_plain(rank, fields.at(1));
    } else if (kind == "leave") {
      ask_to_leave(rank, fields);
    } else if (kind == "confirmed") {
      confirm_leaver(static_cast<std::size_t>(std::stoull(fields.at(1))), rank);
    } else if (kind == "refuse") {
      refuse_operation(fields.at(1));
    } else if (kind == "state") {
      replacements_.record_state(fields.at(1) == "whole");
    } else if (kind == "dealt") {
      book_.record_dealt(rank, std::stoull(fields.at(1)));
    } else if (kind == "resumed") {
      book_.record_resumed(std::stoull(fields.at(1)));
    } else if (kind == "snapshot") {
      book_.record_snapshot(std::stoull(fields.at(1)));
    } else {
      replacements_.handle_answer(rank, fields);
    }
  }

  // ---- replacements
  // ------------------------------------------------------------------------------

  /// Makes the new process of a lost rank a member, and lets all ranks continue.
  void complete_join() {
    const std::size_t rank = replacements_.rank();
    silent_.erase(rank);
    ranks_[rank] = replacements_.claim_process(now_s());
    react(Reaction::new_epoch);
    replacements_.resume_members();
  }

  // ---- ranks that end
  // ----------------------------------------------------------------------------

  /// Asks the other members whether they have the results that the rank has.
  void ask_to_leave(std::size_t rank, const Fields& fields) {
    Fields question{"confirm", std::to_string(rank)};
    question.insert(question.end(), fields.begin() + 1, fields.end());
    const std::vector<std::size_t> others = book_.attached_members(rank);
    leavers_[rank] = {others.begin(), others.end()};
    for (const std::size_t other : others) {
      send_frame(ranks_[other].process.channel(), question);
    }
    confirm_leaver(rank, rank);
  }

  void confirm_leaver(std::size_t leaver, std::size_t by) {
    const auto found = leavers_.find(leaver);
    if (found == leavers_.end()) return;
    found->second.erase(by);
    if (!found->second.empty()) return;
    leavers_.erase(found);
    send_frame(ranks_[leaver].process.channel(), {"left"});
    react(book_.record_left(leaver));
    forget_in_leavers(leaver);
  }

  /// No leaver waits any longer for a rank that has ended or left.
  void forget_in_leavers(std::size_t rank) {
    std::vector<std::size_t> waiting;
    for (const auto& [leaver, others] : leavers_) waiting.push_back(leaver);
    for (const std::size_t leaver : waiting) confirm_leaver(leaver, rank);
  }

  void reap_ranks() {
    std::vector<std::size_t> ended;
    bool announces = false;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (book_.has_ended(rank) || !ranks_[rank].process.has_ended()) continue;
      if (ranks_[rank].is_open) read_rank(rank);
      ranks_[rank].process.signal(SIGKILL);  // the processes that the rank has started
      const std::optional<ExitStatus> status = ranks_[rank].process.exit_status();
      if (!status) continue;
      std::string cause = status->description();
      if (silent_.count(rank) > 0) cause = "no heartbeat: stopped or hung, then killed";
      const bool was_member = !book_.has_left(rank);
      const Reaction reaction = book_.record_exit(rank, status->code, cause, now_s());
      if (book_.is_lost(rank) && was_member && !ends_) {
        const char* const next = reaction == Reaction::end_run ? "are ended" : "go on";
        settings_.print_line(fmt::format("rank {} lost ({}), {} of {} ranks {}", rank, cause,
                                         book_.members().size(), settings_.ranks, next));
      }
      replacements_.remove_member(rank);
      leavers_.erase(rank);
      ended.push_back(rank);
      announces = announces || reaction == Reaction::new_epoch;
      if (reaction == Reaction::end_run) {
        plain_code_ = status->code;
        end_ranks(SIGTERM, kTermGrace_s);
      }
    }
    if (announces) react(Reaction::new_epoch);
    for (const std::size_t rank : ended) forget_in_leavers(rank);
  }

  // ---- epochs
  // ------------------------------------------------------------------------------------

  void react(Reaction reaction) {
    if (reaction != Reaction::new_epoch || ends_) return;
    book_.begin_epoch();
    for (const std::size_t rank : book_.attached_members(settings_.ranks)) tell_epoch(rank);
  }

  void tell_epoch(std::size_t rank) {
    send_frame(ranks_[rank].process.channel(),
               {"epoch", std::to_string(book_.epoch()),
                fmt::format("{}", fmt::join(book_.members(), ","))});
  }

  /// Handles all that depends on the time: heartbeats, cuts, signals, the end of patience.
  void watch_time() {
    const double now = now_s();
    for (const std::size_t rank : book_.silent_ranks(now)) {
      if (!silent_.insert(rank).second) continue;
      ranks_[rank].process.signal(SIGKILL);
    }
    if (book_.is_cut_due(now)) {
      settings_.print_line(
          fmt::format("an operation failed without a loss, all ranks connect again: "
                      "{}",
                      problem_.substr(0, problem_.find('\n'))));
      react(Reaction::new_epoch);
    }
    if (const int number = settings_.signal(); number != 0) {
      if (signal_ != 0) kill_at_s_ = now;
      signal_ = number;
      if (kill_at_s_ == 0) end_ranks(number, kSignalGrace_s);
    }
    if (kill_at_s_ > 0 && now >= kill_at_s_) {
      kill_at_s_ = 0;
      for (RankProcess& rank : ranks_) rank.process.signal(SIGKILL);
    }
  }

  void end_ranks(int number, double grace_s) {
    if (!ends_) kill_at_s_ = now_s() + grace_s;
    ends_ = true;
    book_.record_ending();
    for (RankProcess& rank : ranks_) rank.process.signal(number);
  }

  void refuse_operation(const std::string& operation) {
    if (!refused_.empty()) return;
    refused_ = operation;
    end_ranks(SIGTERM, kTermGrace_s);
  }

  const ProgramSettings& settings_;
  TemporaryFolder folder_{"orrery-run"};
  double begin_s_;
  RunBook book_;
  Descriptor listener_;
  KeyValueStore store_;
  std::vector<RankProcess> ranks_;
  Replacements replacements_{settings_, book_, folder_.path_of("store"), folder_.path_of("state"),
                             [this](std::size_t rank, const Fields& fields) {
                               send_frame(ranks_[rank].process.channel(), fields);
                             }};
  std::map<int, StoreConnection> connections_;
  int next_connection_ = 0;
  std::map<std::size_t, std::set<std::size_t>> leavers_;  ///< ranks that each leaver waits for
  std::set<std::size_t> silent_;
  std::string refused_, problem_;
  int signal_ = 0;
  int plain_code_ = 0;  ///< code of the loss that ended a run without fault-tolerant groups
  double kill_at_s_ = 0;
  bool ends_ = false;
};

}  // namespace

ProgramOutcome run_program(const ProgramSettings& settings) { return ProgramRun(settings).run(); }

}  // namespace orrery::live
