// Messages of a rank that stay valid: a successor of `orrery run` hears them anew. Plain C++
// without PyTorch, compiled into the user's program. One thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "live/group/frames.hpp"

namespace orrery::live {

/// Lasting facts that one rank has sent: its groups with their first uncarried operations, the
/// features that policies may change, its training state, the newest snapshot. The newest message
/// of a kind counts, and of each group the newest of a kind. Example: of "snapshot 100" and
/// "snapshot 200" the second one is kept.
class SentFacts {
 public:
  /// Records a message. Ignores those of other kinds, such as heartbeats.
  void record_message(const Fields& fields);
  /// Returns the messages in the order in which their kinds and groups came first.
  std::vector<Fields> messages() const;

 private:
  std::vector<std::pair<std::string, Fields>> facts_;  ///< messages by kind and group
};

}  // namespace orrery::live
