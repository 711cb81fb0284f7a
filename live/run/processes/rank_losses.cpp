// Losses of ranks: the part of RankProcesses that finds out which processes are lost, and why:
// their ends, their silence and the errors that they report.
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "live/run/processes/crew.hpp"

namespace orrery::live {
namespace {

// Errors per rank on average without a committed step.
constexpr std::uint32_t kMostFailures = 3;

}  // namespace

/// An error that only this process or its machine has (descriptors, memory, disk space) costs the
/// run this process. The error becomes the run's error if no step is committed any more.
void RankProcesses::on_failure(const Seat& seat, const Failed& failed,
                               std::vector<RankEvent>& events) {
  if (failed.state_lost()) {
    events.emplace_back(StateGone{failed.reason()});
    return;
  }
  if (!failed.local() || !formed_ || ++failures_ > kMostFailures * agents_.initial_ranks()) {
    throw Error(static_cast<ErrorKind>(failed.kind()), failed.reason());
  }
  if (seat.life == agents_.life(seat.rank)) end(seat.rank, failed.reason());
}

std::optional<RankDied> RankProcesses::note_end(const Seat& seat) {
  const bool was_fenced = coordinator_.is_fenced(seat);
  coordinator_.record_exit(seat);
  if (const auto spare = spares_.find(seat.rank); spare != spares_.end()) {
    spare->second.reset();
    if (!replacements_.is_requested(seat.rank)) replacements_.request_restart(seat.rank, now());
    return std::nullopt;
  }
  if (was_fenced) return std::nullopt;
  return RankDied{.death = {.rank = seat.rank, .cause = causes_[seat]},
                  .was_member = was_member(seat)};
}

RankDied RankProcesses::note_loss(const membership::Lost& lost) {
  const std::uint32_t rank = lost.seat.rank;
  futile_ = 0;
  std::string cause = causes_[lost.seat];
  if (cause.empty()) cause = "another process has taken its place";
  if (lost.silent) {
    cause = fmt::format("sent no heartbeat for {:.1f} s", to_seconds(timeout_));
  } else {
    dead_.insert(lost.seat);
  }
  return {.death = {.rank = rank, .cause = std::move(cause)}, .was_member = was_member(lost.seat)};
}

}  // namespace orrery::live
