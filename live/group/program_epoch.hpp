// Membership epochs of a program, and of each of its groups. A group builds its connections anew
// only in epochs in which its own members have changed, so that operations that no loss may
// interrupt go on in the other groups. Used by both sides (live/torch, live/programs). Plain
// values; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "live/group/frames.hpp"

namespace orrery::live {

/// Members of one epoch, and the newest changes of all ranks.
struct ProgramEpoch {
  std::uint64_t number = 0;
  std::vector<std::size_t> members;  ///< ascending ranks of the program
  std::uint64_t reset = 0;           ///< newest epoch in which all groups connect anew
  /// newest epoch in which each rank became a member or ceased to be one, by rank
  std::vector<std::uint64_t> changed;
};

/// Returns the epoch of a group of these ranks: the newest one in which the group connects anew.
/// All members of the group compute the same, however many epochs each has heard. Ranks without an
/// entry in `changed` have not changed. Example: of the ranks 0 to 3, rank 3 is lost in epoch 1.
/// The group of ranks 2 and 3 has epoch 1, that of ranks 0 and 1 still has epoch 0.
std::uint64_t epoch_of_group(const ProgramEpoch& epoch, const std::vector<std::size_t>& ranks);

/// Returns the epoch that follows in which these ranks are members. `is_reset`: all groups connect
/// anew, because connections were cut.
ProgramEpoch next_epoch(const ProgramEpoch& epoch, std::vector<std::size_t> members, bool is_reset);

/// Returns the message about an epoch: "epoch NUMBER MEMBERS RESET CHANGED", with commas in the
/// lists.
Fields message_of(const ProgramEpoch& epoch);
/// Returns the epoch in a message. Throws std::exception if a number or a field is missing.
ProgramEpoch epoch_of(const Fields& fields);

/// Returns numbers with commas between them, for example "0,2".
std::string list_of(const std::vector<std::size_t>& numbers);
/// Returns the numbers in such a text. Throws std::exception for another text.
std::vector<std::size_t> numbers_in(const std::string& list);

}  // namespace orrery::live
