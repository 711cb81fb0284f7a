// Places of the training state of a run: the processes that together hold all of it. The
// coordinator asks which copies are left when ranks are silent or gone. Plain values without clock
// or threads; instants (Nanos) are those of the caller's clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "live/membership/protocol.hpp"

namespace orrery::live::membership {

/// Process that holds the training state of all committed steps, or its share of a sharded state.
struct Holder {
  Seat seat;
  Nanos heard = 0;  ///< instant of its newest status
};

/// Distributions of the training state among processes. If the state is not sharded, and until the
/// first distribution is recorded, each holder has all of it. Otherwise each member of a
/// distribution holds its own part and copies of the parts that it keeps, so that each part has two
/// holders. Members keep the parts of earlier distributions until the next committed step, so the
/// state is complete if the holders have every part of one of these distributions. For example, if
/// members 0 to 3 keep each other's copies in the pairs {0, 2} and {1, 3}, the state is complete on
/// 1 and 2, and incomplete on 1 and 3.
class StateParts {
 public:
  /// Returns the index of the member that keeps the copy of each member's part, by member
  /// (copy_keepers()).
  using Keepers = std::function<std::vector<std::uint32_t>(const std::vector<Seat>& members)>;
  /// Starts without distributions. `keepers` is empty if every rank holds the whole state.
  explicit StateParts(Keepers keepers) : keepers_(std::move(keepers)) {}

  /// Records that all `members`, at least one, hold their shares now. No effect if the state is not
  /// sharded. Throws an internal Error if the keepers are not as many as the members.
  void add_distribution(const std::vector<Seat>& members);
  /// Records a committed step: only the newest distribution still counts.
  void keep_newest();
  /// Forgets all distributions: every holder from now on has the whole state.
  void clear() { distributions_.clear(); }

  /// Returns the number of copies of the part of which `holders` have the fewest: 0 if the state is
  /// incomplete. `holders` must be ascending by seat, each once, which is not checked.
  std::size_t count_copies(const std::vector<Holder>& holders) const;
  /// Returns the newest instant such that the holders heard then or later have the whole state;
  /// nothing if the state is incomplete. `holders` as for count_copies().
  std::optional<Nanos> complete_since(const std::vector<Holder>& holders) const;

 private:
  struct Part {
    Seat owner, keeper;  ///< the same if a member has no peer
  };
  using Distribution = std::vector<Part>;

  Keepers keepers_;
  std::vector<Distribution> distributions_;  ///< oldest first
};

}  // namespace orrery::live::membership
