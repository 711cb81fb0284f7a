#include "live/run/losses/progress_watch.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace orrery::live {
namespace {

constexpr std::size_t kSteps = 5;
constexpr Nanos kTimes = 10;

}  // namespace

void ProgressWatch::step_done(Nanos took) {
  took_.push_back(took);
  if (took_.size() > kSteps) took_.pop_front();
}

Nanos ProgressWatch::limit(Nanos least, Nanos micro_batch) const {
  std::vector<Nanos> sorted(took_.begin(), took_.end());
  std::sort(sorted.begin(), sorted.end());
  const Nanos usual = sorted.empty() ? 0 : sorted[(sorted.size() - 1) / 2];
  return std::max({least, kTimes * usual, kTimes * micro_batch});
}

void ProgressWatch::record_heartbeat(std::uint32_t rank, std::uint32_t life, const Heartbeat& beat,
                                     Nanos now) {
  const MemberStatus& status = beat.status();
  // Only complete micro-batches count: the fraction of a micro-batch follows the clock, not the
  // work.
  const auto whole = static_cast<std::uint64_t>(beat.progress().micro_batches_done());
  const Stand stand{status.epoch(), status.linked(), status.applied(), status.reduced()};
  const auto [found, fresh] = ranks_.try_emplace(rank);
  Rank& known = found->second;
  const bool same = known.life == life && known.stand == stand &&
                    known.step == beat.progress().step() && known.micro_batches == whole;
  if (!fresh && same) return;
  known.step = beat.progress().step();
  known.micro_batches = whole;
  known.life = life;
  known.stand = stand;
  known.moved = now;
}

void ProgressWatch::restart_timers(Nanos now) {
  for (auto& [rank, known] : ranks_) known.moved = now;
}

std::vector<std::uint32_t> ProgressWatch::standing(const std::vector<std::uint32_t>& members,
                                                   const std::vector<std::uint64_t>& shares,
                                                   Nanos limit, Nanos now) const {
  if (members.empty()) return {};  // A new controller has no progress of any member yet.
  // Progress, and whether the micro-batches are done.
  std::vector<std::pair<Stand, bool>> stands;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto found = ranks_.find(members[i]);
    if (found == ranks_.end() || now - found->second.moved < limit) return {};
    const Rank& known = found->second;
    const bool done = std::get<3>(known.stand) || known.micro_batches >= shares[i];
    stands.emplace_back(known.stand, done);
  }
  const auto last = *std::min_element(stands.begin(), stands.end());
  std::vector<std::uint32_t> behind;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (stands[i] == last) behind.push_back(members[i]);
  }
  const auto& [epoch, linked, applied, reduced] = last.first;
  const bool exchanging = linked && last.second && !reduced;
  return exchanging && behind.size() > 1 ? members : behind;
}

std::pair<std::uint64_t, std::uint64_t> ProgressWatch::at(std::uint32_t rank) const {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) return {};
  return {found->second.step, found->second.micro_batches};
}

std::string ProgressWatch::where(std::uint32_t rank) const {
  const auto [step, micro_batches] = at(rank);
  return fmt::format("in step {}, after {} micro-batches", step, micro_batches);
}

}  // namespace orrery::live
