// Warm process of a user's program: a Python that has imported PyTorch and forks ranks
// (python/orrery/programs/warming.py). Used by `orrery run`. One thread, with which the warm
// process dies.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/process.hpp"
#include "live/group/frames.hpp"

namespace orrery::live {

/// Returns true if a command can have a warm process: its program is a Python.
bool can_be_warm(const std::string& executable);

/// Warm process. A fork of it is a rank in a process group of its own. Example: imports of 10 s are
/// made once, and each rank begins after some hundredths of a second.
class WarmProcess {
 public:
  /// State of the process: `importing` at first; `ready` to fork; `unusable` for good.
  enum class State : std::uint8_t { importing, ready, unusable };

  /// Starts nothing. `folder`: existing folder for the files of this object.
  explicit WarmProcess(const std::string& folder);

  /// Returns the path of the file that the process writes once it has imported the libraries: empty
  /// if it can fork, else with the reason why it cannot.
  const std::string& answer_path() const { return answer_; }
  /// Starts `executable` with `arguments` in the environment of this process, which must name
  /// answer_path() to the attachment. Call once. Throws an environment Error if the process cannot
  /// be started.
  void start(const std::string& executable, const std::vector<std::string>& arguments);
  /// Returns the state, and reads answer_path() if that has changed. `unusable` before start().
  State read_state();
  /// Blocks for 0.01 s, between two calls of read_state() by a caller that waits for an answer.
  static void pause_short();
  /// Returns the reason of the state `unusable`; empty for another state.
  const std::string& problem() const { return problem_; }
  /// Forks a rank with these variables of its environment, each NAME=VALUE, in place of those of
  /// this process. Returns nothing, and is unusable from then on, if the process has ended. Call if
  /// read_state() is `ready`. Blocks for the fork, about 0.05 s. Throws an environment Error if no
  /// socket can be made.
  std::optional<ChildProcess> fork_rank(const Fields& environment);

 private:
  const std::string starter_, answer_;
  std::optional<ForkServer> server_;
  State state_ = State::unusable;
  std::string problem_;
};

}  // namespace orrery::live
