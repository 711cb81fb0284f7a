#include "live/run/processes/replacements.hpp"

namespace orrery::live {
namespace {

constexpr int kMostAttempts = 8;
// Pause before the third attempt, doubled for each further attempt.
constexpr Nanos kFirstPause = kNanosPerSecond / 2;

}  // namespace

void Replacements::request_restart(std::uint32_t rank, Nanos now) {
  const int attempt = ++attempts_[rank];
  if (attempt > kMostAttempts + 1) return;
  const Nanos pause = attempt < 3 ? 0 : kFirstPause << (attempt - 3);
  wanted_.emplace(rank, now + pause);
}

void Replacements::record_member(std::uint32_t rank) {
  attempts_.erase(rank);
  wanted_.erase(rank);
}

std::vector<std::uint32_t> Replacements::start(
    Nanos now, const std::function<bool(std::uint32_t rank)>& start) {
  std::vector<std::uint32_t> given_up;
  std::erase_if(wanted_, [&](const auto& each) {
    const auto [rank, at] = each;
    if (attempts_[rank] <= kMostAttempts) return now >= at && start(rank);
    given_up.push_back(rank);
    attempts_.erase(rank);
    return true;
  });
  return given_up;
}

}  // namespace orrery::live
