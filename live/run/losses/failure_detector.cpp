#include "live/run/losses/failure_detector.hpp"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "policies/seam/job_lifecycle.hpp"

namespace orrery::live {
namespace {

// Longest gap between two checks, which are due every 50 ms.
constexpr Nanos kLongestLook = 5 * kNanosPerSecond;

/// Returns the kernel function in which the main thread waits; empty if unknown.
std::string waits_in(std::int64_t pid) {
  std::string where;
  std::ifstream(fmt::format("/proc/{}/wchan", pid)) >> where;
  return where.empty() || where == "0" ? std::string() : ", its thread waits in " + where;
}

}  // namespace

FailureDetector::FailureDetector(const Scenario& scenario, bool local, const Placement& placement,
                                 const FaultInjector& faults, RankControl& control,
                                 std::function<void(const std::string&)> warn)
    : scenario_(scenario),
      local_(local),
      placement_(placement),
      faults_(faults),
      control_(control),
      warn_(std::move(warn)) {}

std::vector<std::uint32_t> FailureDetector::silent_seats() const {
  return control_.states().ranks_with(&RankState::is_silent);
}

std::optional<RanksSuspected> FailureDetector::new_suspects() const {
  std::vector<RankId> silent;
  for (const std::uint32_t seat : silent_seats()) {
    if (const auto rank = placement_.rank_in(seat)) silent.push_back(*rank);
  }
  return suspicion_of(placement_.job(), std::move(silent));
}

bool FailureDetector::has_reason_to_wait(Step step, bool under_way, Nanos now) {
  const RankStates& ranks = control_.states();
  const bool silent = ranks.all_silent;
  if (silent != std::exchange(all_silent_, silent)) {
    warn_(silent ? silence_of_holders() : "ranks send heartbeats again");
  }
  const bool working = under_way || !ranks.is_epoch_formed;
  // Progress is unobserved during a suspension of this machine.
  const bool away = now - std::exchange(looked_at_, now) > kLongestLook;
  return !working || away || all_silent_ || faults_.has_lost_parts(step, now);
}

std::string FailureDetector::silence_of_holders() const {
  return fmt::format(
      "ranks without heartbeats hold training state that no other rank has (silent ranks: {}): the "
      "network, this machine's clock or a stopped process is suspected; the run waits for them for "
      "{:g} s at most",
      fmt::join(silent_seats(), ", "), to_seconds(control_.states().patience));
}

Nanos FailureDetector::limit(const std::vector<std::uint32_t>& ranks, Step step, Nanos now) const {
  double slowest = 1;
  for (const std::uint32_t rank : ranks) {
    slowest = std::min(slowest, faults_.hardware(rank, step, now).speed());
  }
  const double pace = static_cast<double>(scenario_.job().pace().micro_batch()) / slowest;
  return watch_.limit(scenario_.live().progress_timeout(), static_cast<Nanos>(pace));
}

void FailureDetector::check_progress(Step step, bool under_way, Nanos now) {
  if (has_reason_to_wait(step, under_way, now)) return watch_.restart_timers(now);
  if (scenario_.live().progress_timeout() == 0) return;
  const std::vector<std::uint32_t> ranks = control_.states().ranks_with(&RankState::is_peer);
  std::vector<std::uint64_t> shares;
  for (const std::uint32_t rank : ranks) shares.push_back(placement_.share(rank));
  const Nanos longest = limit(ranks, step, now);
  const std::vector<std::uint32_t> behind = watch_.standing(ranks, shares, longest, now);
  if (behind.empty()) return;
  watch_.restart_timers(now);
  if (behind.size() < ranks.size() || ranks.size() == 1) {
    for (const std::uint32_t rank : behind) end(rank, longest);
    return;
  }
  warn_(fmt::format(
      "no rank has made progress for {:.1f} s in the exchange of step {}: the ranks link again",
      to_seconds(longest), step));
  control_.renew_epoch();
}

void FailureDetector::end(std::uint32_t rank, Nanos limit) {
  const std::string cause = fmt::format(
      "sent heartbeats but made no progress for {:.1f} s: {}{}", to_seconds(limit),
      watch_.where(rank), local_ ? waits_in(control_.states().at(rank).pid) : std::string());
  warn_(fmt::format("rank {} {}; the rank is killed", rank, cause));
  control_.end(rank, cause);
}

}  // namespace orrery::live
