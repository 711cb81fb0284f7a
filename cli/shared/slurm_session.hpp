// Parts that commands beside a real Slurm share. One thread.
#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <string>

#include "core/ids.hpp"

namespace orrery::cli {

/// Deadline of each of Slurm's commands.
inline constexpr std::chrono::seconds kSlurmPatience(10);

/// Returns an instant of the policy clock as local time of day: "14:07:30".
std::string clock_time(Nanos at);

/// Handler of SIGINT, SIGTERM and SIGHUP while a run lasts: each ends the run after the reading.
/// Not more than one at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  /// Returns true once a signal has come since the newest handler was installed.
  static bool is_stopped();

 private:
  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> before_;
};

}  // namespace orrery::cli
