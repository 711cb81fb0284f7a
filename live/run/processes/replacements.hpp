// Which lost ranks are to be started again, and when. Where their processes die before they join,
// the next ones are started later and later, for about a minute in all; then nobody is. Called by
// the crew; one thread. Instants are the caller's clock's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "core/ids.hpp"

namespace orrery::live {

class Replacements {
 public:
  /// That rank is to be started again.
  void want(std::uint32_t rank, Nanos now);
  /// It is a member: its next loss is its first.
  void joined(std::uint32_t rank);
  /// Starts those that are due; `start` is false while that cannot be. Gives those that are started
  /// no more; whoever wants one of them again means it.
  std::vector<std::uint32_t> start(Nanos now, const std::function<bool(std::uint32_t rank)>& start);

 private:
  std::map<std::uint32_t, Nanos> wanted_;  ///< by rank: not before
  std::map<std::uint32_t, int> attempts_;  ///< replacements wanted since it last joined
};

}  // namespace orrery::live
