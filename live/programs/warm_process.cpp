#include "live/programs/warm_process.hpp"

#include <sys/prctl.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "core/error.hpp"
#include "core/files/file_kind.hpp"
#include "live/programs/rank_process.hpp"

namespace orrery::live {
namespace {

namespace fs = std::filesystem;

/// Returns a word as a shell reads it back.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char each : word) text += each == '\'' ? "'\\''" : std::string(1, each);
  return text + "'";
}

/// Scope in which orphaned descendants of this process become its children.
class AdoptsOrphans {
 public:
  AdoptsOrphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }
  ~AdoptsOrphans() { prctl(PR_SET_CHILD_SUBREAPER, 0); }
  AdoptsOrphans(const AdoptsOrphans&) = delete;
  AdoptsOrphans& operator=(const AdoptsOrphans&) = delete;
};

}  // namespace

bool can_be_warm(const std::string& executable) {
  return fs::path(executable).filename().string().starts_with("python");
}

WarmProcess::WarmProcess(const std::string& folder)
    : starter_((fs::path(folder) / "warm.sh").string()),
      answer_((fs::path(folder) / "warm.answer").string()) {}

void WarmProcess::start(const std::string& executable, const std::vector<std::string>& arguments) {
  // A fork server is started without arguments of its own and binds all functions early.
  std::string text = "#!/bin/sh\nunset LD_BIND_NOW\nexec " + quoted(executable);
  for (const std::string& argument : arguments) text += " " + quoted(argument);
  std::ofstream(starter_) << text << "\n";
  std::error_code unknown;
  fs::permissions(starter_, fs::perms::owner_all, unknown);
  server_.emplace(starter_);
  state_ = State::importing;
}

WarmProcess::State WarmProcess::read_state() {
  if (state_ != State::importing || !is_file(answer_)) return state_;
  std::ifstream file(answer_);
  problem_.assign(std::istreambuf_iterator<char>(file), {});
  state_ = problem_.empty() ? State::ready : State::unusable;
  return state_;
}

void WarmProcess::pause_short() { std::this_thread::sleep_for(std::chrono::milliseconds(10)); }

std::optional<ChildProcess> WarmProcess::fork_rank(const Fields& environment) {
  try {
    const AdoptsOrphans adopts;
    ChildProcess rank(*server_);
    send_frame(rank.channel(), environment);
    return rank;
  } catch (const Error& error) {
    state_ = State::unusable;
    problem_ = error.message();
    return {};
  }
}

}  // namespace orrery::live
