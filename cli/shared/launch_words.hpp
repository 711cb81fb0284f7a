// Command line of a user's program as `orrery run` gets it: a program with its arguments, or
// torchrun with its own. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace orrery::cli {

/// Command of every rank.
struct Launch {
  std::uint32_t ranks = 1;
  std::uint32_t restarts = 0;        ///< most starts of all ranks after the first
  std::vector<std::string> command;  ///< program and arguments; the program as the user wrote it
  /// True if the command came from torchrun, without --no-python. The program is then the Python
  /// beside torchrun.
  bool is_torchrun = false;
};

/// Reads `words` after "--", at least one. `ranks` is the user's -n, which wins over torchrun's
/// --nproc-per-node; without both, there is one rank. Of torchrun's options those for one machine
/// and --max-restarts are read; its options about rendezvous are skipped, because `orrery run`
/// starts the ranks itself. Example: {"torchrun", "--nproc-per-node=4", "train.py", "--lr", "1"} is
/// 4 ranks of {"torchrun", "train.py", "--lr", "1"} with is_torchrun, where the caller replaces the
/// first word. Throws a usage Error for several machines, for a count that is no whole number (of
/// ranks: above 0), and for torchrun without a script.
Launch read_launch(const std::vector<std::string>& words, std::optional<std::uint32_t> ranks);

}  // namespace orrery::cli
