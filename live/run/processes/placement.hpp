// Which process is which rank. A process has a seat, the number of its GPU; the job's rank r is
// whoever sits on the r-th GPU on which the job stands. Says who works, who is still to come by the
// newest assignment, and who is to leave; the live backend asks it. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "policies/seam/world.hpp"

namespace orrery::live {

/// The one job of a live run.
inline constexpr JobId kLiveJob{0};

class Placement {
 public:
  /// `world` outlives this, and knows the job whenever it is asked for ranks.
  Placement(const World& world, std::uint32_t seats) : world_(world), seats_(seats) {}

  std::uint32_t seats() const { return seats_; }
  bool submitted() const { return !world_.jobs().empty(); }
  const JobInfo& job() const { return world_.jobs()[kLiveJob]; }

  /// The rank that the process in this seat is; nothing if the job does not count on it now.
  std::optional<RankId> rank_in(std::uint32_t seat) const;
  bool works(std::uint32_t seat) const { return rank_in(seat).has_value(); }
  /// It is to be among the job's GPUs, and is not yet.
  bool wanted(std::uint32_t seat) const;
  bool to_leave(std::uint32_t seat) const;
  /// Seats that work or are wanted.
  std::vector<std::uint32_t> awaited() const;
  /// Ranks that the job counts on now.
  std::size_t counted() const { return job().gpus.size() - job().lost.size(); }
  /// Micro-batches of a step that the rank in this seat does; 0: the job does not count on it.
  std::uint32_t share(std::uint32_t seat) const;

  /// For this seat nobody is started any more, until it is assigned again.
  void give_up(std::uint32_t seat) { given_up_.insert(seat); }
  void try_again(std::uint32_t seat) { given_up_.erase(seat); }

  /// What comes of the newest assignment: where it names somebody for whom nobody is started any
  /// more, the job stands without him. Else it would be open for ever, and no other one taken.
  Standing coming() const;
  /// All that the newest assignment names are among the members, with the job's state.
  bool assembled(const std::vector<std::uint32_t>& members) const;
  /// The members are those that do the job's next step. Else somebody has joined whom the job does
  /// not count on yet, or is leaving; or those that are to take the place of some that have left
  /// are not there yet.
  bool complete(const std::vector<std::uint32_t>& members) const;

 private:
  const World& world_;
  const std::uint32_t seats_;
  std::set<std::uint32_t> given_up_;
};

}  // namespace orrery::live
