// A rank's place among the ranks of its fabric, and what it hears from each of them: by stream
// (inbox.hpp) or through memory (shared_boards.hpp). Both ends of links and the fabric use it;
// thread-safe as those are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "live/fabric/inbox.hpp"
#include "live/fabric/shared_boards.hpp"

namespace orrery::live {

class Peers {
 public:
  /// Throws an environment Error if there is no memory.
  Peers(std::uint32_t rank, std::uint32_t ranks)
      : rank_(rank), ranks_(ranks), boards_(rank, ranks), inboxes_(ranks) {}

  std::uint32_t rank() const { return rank_; }
  std::uint32_t ranks() const { return ranks_; }
  SharedBoards& boards() { return boards_; }
  /// What has come from rank `from`.
  Inbox& inbox(std::uint32_t from) { return inboxes_.at(from); }

  /// Nobody waits any longer for what may come.
  void close(const std::string& why) {
    for (Inbox& inbox : inboxes_) inbox.close(why);
    boards_.bell().ring();
  }

 private:
  const std::uint32_t rank_, ranks_;
  SharedBoards boards_;
  std::vector<Inbox> inboxes_;  ///< by rank
};

}  // namespace orrery::live
