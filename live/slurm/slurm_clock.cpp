#include "live/slurm/slurm_clock.hpp"

#include <cstdlib>

#include <fmt/format.h>

namespace orrery::live {
namespace {

constexpr std::int64_t kAgree_s = 1;  // slurmctld shows whole seconds

}  // namespace

bool SlurmClock::compare_clocks(std::int64_t shown_s, Nanos before, Nanos after) {
  if (shown_s == 0) return false;
  const std::int64_t early_s = before / kNanosPerSecond + ahead_s_;
  const std::int64_t late_s = after / kNanosPerSecond + ahead_s_;
  if (shown_s >= early_s - kAgree_s && shown_s <= late_s + kAgree_s) return false;
  ahead_s_ += shown_s - (shown_s < early_s ? early_s : late_s);
  if (std::abs(ahead_s_) <= kAgree_s) ahead_s_ = 0;
  return true;
}

std::string SlurmClock::describe_difference() const {
  if (ahead_s_ == 0) return "the clocks of slurmctld and of this machine agree again";
  return fmt::format(
      "the clocks differ by {} s: that of slurmctld is {} this machine's; all "
      "instants of this run are slurmctld's",
      std::abs(ahead_s_), ahead_s_ > 0 ? "ahead of" : "behind");
}

}  // namespace orrery::live
