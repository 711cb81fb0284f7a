// A rank's number among the ranks of its fabric, and its receivers for each peer: by stream
// (inbox.hpp) or through memory (shared_boards.hpp). Used by both ends of links and by the fabric;
// thread-safe as those are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "live/fabric/inbox.hpp"
#include "live/fabric/shared_boards.hpp"

namespace orrery::live {

/// Receivers of one rank.
class Peers {
 public:
  /// Allocates the receivers; `rank` is below `ranks`. Throws an environment Error if no memory is
  /// available.
  Peers(std::uint32_t rank, std::uint32_t ranks)
      : rank_(rank), ranks_(ranks), boards_(rank, ranks), inboxes_(ranks) {}

  /// Returns the number of this rank, from 0.
  std::uint32_t rank() const { return rank_; }
  /// Returns the number of ranks, this one included.
  std::uint32_t ranks() const { return ranks_; }
  /// Returns the boards of this rank and its peers; valid as long as this object.
  SharedBoards& boards() { return boards_; }
  /// Returns the inbox of rank `from`. Throws std::out_of_range unless `from` is below ranks().
  Inbox& inbox(std::uint32_t from) { return inboxes_.at(from); }

  /// Closes the inboxes of all ranks with reason `why`, and rings the bell of this rank.
  void close(const std::string& why) {
    for (Inbox& inbox : inboxes_) inbox.close(why);
    boards_.bell().ring();
  }

 private:
  const std::uint32_t rank_, ranks_;
  SharedBoards boards_;
  std::vector<Inbox> inboxes_;  ///< indexed by rank
};

}  // namespace orrery::live
