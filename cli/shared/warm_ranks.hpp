// Ranks of `orrery run` that are forked from a process that has imported PyTorch, where that is
// possible, and started anew otherwise. One thread; the functions change the environment of this
// process.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "cli/shared/program_start.hpp"
#include "live/programs/warm_process.hpp"

namespace orrery::cli {

/// Ranks that are forked from a warm process: only those that replace others or start again, all,
/// or none.
enum class WarmUse : std::uint8_t { spares, all, none };
constexpr std::array<std::string_view, 3> names_of(WarmUse) { return {"spares", "all", "none"}; }

/// Starter of the ranks of one run.
class WarmRanks {
 public:
  /// Starts nothing. `print_line` shows a line to the user. Throws as starter_of().
  WarmRanks(const Launch& launch, const std::string& executable, AttachSettings settings,
            const std::string& folder, std::function<void(const std::string&)> print_line);

  /// Starts the warm process if `use` and the program allow it; otherwise prints the reason. With
  /// `all`, waits until it has imported the libraries, but returns false at once after a signal to
  /// this process. Call once, before start_rank(). Throws as WarmProcess::start().
  bool start_process(WarmUse use);
  /// Sets the trial that the next ranks run.
  void set_proof(const ProofSettings& proof);
  /// Returns true if ranks may be forked from the warm process, now or later.
  bool is_warm() const { return use_ != WarmUse::none; }
  /// Starts a rank. Throws as the starter of starter_of().
  live::StartedRank start_rank(const live::RankStart& start);

 private:
  /// Prints once why ranks are started anew.
  void print_problem();

  const Launch& launch_;
  const std::string executable_;
  AttachSettings settings_;
  const std::function<void(const std::string&)> print_line_;
  live::RankStarter cold_;
  live::WarmProcess warm_;
  WarmUse use_ = WarmUse::none;
  std::size_t first_starts_ = 0;
};

}  // namespace orrery::cli
