// States of a run's ranks, as the control core and their processes show them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ids.hpp"

namespace orrery::live {

/// State of the newest process of one rank; all false and 0 if the rank has had none.
struct RankState {
  bool is_running = false;  ///< has not ended
  bool is_peer = false;     ///< sends statuses, member or not
  bool is_member = false;   ///< belongs to the epoch, linked or not
  /// Peer without a status for suspicion_time(), or fenced and not heard again.
  bool is_silent = false;
  bool is_fenced = false;           ///< fenced by the control core
  bool is_heard_again = false;      ///< fenced, and has sent a status since
  bool is_spare = false;            ///< waits, or will wait, as a warm spare
  bool is_answering_spare = false;  ///< waits as a warm spare and has sent a status
  std::int64_t pid = 0;             ///< process id of the newest process that has connected
};

/// States of all ranks of a run at one instant. A `rank` is the number of a process, which
/// Placement calls its seat. A plain value, which tests write by hand.
struct RankStates {
  /// Returns the state of `rank`. Throws std::out_of_range for a rank that can have no process.
  const RankState& at(std::uint32_t rank) const { return ranks.at(rank); }
  /// Returns the ranks with this property, ascending; for example the members of the epoch for
  /// `&RankState::is_member`.
  std::vector<std::uint32_t> ranks_with(bool RankState::*property) const {
    std::vector<std::uint32_t> found;
    for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
      if (ranks[rank].*property) found.push_back(rank);
    }
    return found;
  }

  std::vector<RankState> ranks;  ///< States by rank.
  /// True if an epoch is formed and not revoked: its members are linked. An epoch that still
  /// gathers its ranks has no members.
  bool is_epoch_formed = false;
  /// True while the run has the training state only with silent peers, none of which counts as
  /// lost, or while `waits_for_fenced`; see Coordinator::all_silent().
  bool all_silent = false;
  /// True while the peers lack the training state of all committed steps, or a part of it, that
  /// fenced ranks hold: the next epoch waits for these.
  bool waits_for_fenced = false;
  /// True if peers hold the training state of all committed steps, also new processes that have
  /// received the state before their assignment is active, or if they do so with fenced ranks
  /// (Coordinator::has_fenced_holder()).
  bool has_state_holder = false;
  /// Longest silence for which `all_silent` stays true, in nanoseconds.
  Nanos patience = 0;
};

}  // namespace orrery::live
