#include "live/programs/taken_run.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>
#include <list>
#include <optional>
#include <utility>

#include "live/group/messages.hpp"
#include "live/group/process_state.hpp"
#include "live/group/takeover_files.hpp"

namespace orrery::live {
namespace {

constexpr int kWait_ms = 20;

/// Connection that has not said yet who it is.
struct Caller {
  Descriptor socket;
  FrameReader reader;
};

/// Returns true if the process runs, and was started by an `orrery run`: its id may belong to
/// another process by now.
bool is_rank_running(pid_t process) {
  if (process <= 0 || !is_running(process)) return false;
  std::ifstream file("/proc/" + std::to_string(process) + "/environ", std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  return text.find("ORRERY_RUN=") != std::string::npos;
}

/// Ranks that are called, and those that have answered.
class RankCall {
 public:
  RankCall(const std::string& folder, const std::vector<pid_t>& processes)
      : folder_(folder),
        processes_(processes),
        listener_(listening_socket(successor_socket(folder))) {}

  bool is_complete() const {
    for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
      if (answered_.count(rank) == 0 && is_rank_running(processes_[rank])) return false;
    }
    return true;
  }

  void wait_for_answers() {
    std::vector<pollfd> waiting{{listener_.number(), POLLIN, 0}};
    for (const Caller& caller : callers_) waiting.push_back({caller.socket.number(), POLLIN, 0});
    poll(waiting.data(), waiting.size(), kWait_ms);
    const int accepted = accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC);
    if (accepted >= 0) callers_.push_back({Descriptor(accepted), {}});
    for (auto at = callers_.begin(); at != callers_.end();) {
      at = is_heard(*at) ? callers_.erase(at) : std::next(at);
    }
  }

  /// Kills the ranks that have not answered: stopped ones would meet the others later.
  std::map<std::size_t, AnsweredRank> end_call() {
    unlink(successor_socket(folder_).c_str());
    for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
      const bool is_left_out = answered_.count(rank) == 0 && is_rank_running(processes_[rank]);
      if (is_left_out) kill(-processes_[rank], SIGKILL);
    }
    return std::move(answered_);
  }

 private:
  /// Returns true if nothing more is expected of the caller.
  bool is_heard(Caller& caller) {
    const bool is_open = receive_bytes(caller.socket.number(), caller.reader);
    const std::optional<Fields> said = caller.reader.next_frame();
    if (!said) return !is_open || caller.reader.is_torn();
    try {
      answer(*said, caller);
    } catch (const std::exception&) {}  // a message that is none: the caller is left out
    return true;
  }

  void answer(const Fields& said, Caller& caller) {
    if (kind_of(said) != MessageKind::again) return;
    const std::size_t rank = std::stoull(said.at(1));
    const auto process = static_cast<pid_t>(std::stol(said.at(2)));
    if (rank >= processes_.size() || processes_[rank] != process) return;
    Fields epoch{std::string(name_of(MessageKind::epoch))};
    epoch.insert(epoch.end(), said.begin() + 4, said.end());
    AnsweredRank known{
        .process = take_rank(process, std::move(caller.socket), exit_file(folder_, rank)),
        .steps = std::stoull(said.at(3)),
        .epoch = epoch_of(epoch)};
    answered_.insert_or_assign(rank, std::move(known));
  }

  const std::string& folder_;
  const std::vector<pid_t>& processes_;
  Descriptor listener_;
  std::list<Caller> callers_;
  std::map<std::size_t, AnsweredRank> answered_;
};

}  // namespace

std::map<std::size_t, AnsweredRank> call_ranks(const std::string& folder,
                                               const std::vector<pid_t>& processes,
                                               double patience_s) {
  RankCall call(folder, processes);
  const double end_s = monotonic_s() + patience_s;
  while (!call.is_complete() && monotonic_s() < end_s) call.wait_for_answers();
  return call.end_call();
}

RankProcess ended_rank(const std::string& folder, std::size_t rank) {
  return RankProcess{.process = TakenProcess{-1, Descriptor(-1), exit_file(folder, rank)},
                     .ended = Descriptor(-1),
                     .reader = {},
                     .is_open = false,
                     .is_reaped = true};
}

}  // namespace orrery::live
