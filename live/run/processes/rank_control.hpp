// What is done to the ranks of a run beside giving them work, and what is heard of them: the side
// of Crew that those see who strike ranks, replace them and watch over them. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ids.hpp"

namespace orrery::live {

class RankControl {
 public:
  virtual ~RankControl() = default;

  /// A replacement for a lost rank will be started. Where those die before they join, the next
  /// ones are started later and later, for about a minute in all.
  virtual void replace(std::uint32_t rank) = 0;
  /// To the process of that rank.
  virtual void signal(std::uint32_t rank, int number) = 0;
  /// Kills the process of that rank; `cause` is what is told of it.
  virtual void end(std::uint32_t rank, const std::string& cause) = 0;
  /// The members link up anew, in another epoch.
  virtual void renew() = 0;

  /// Whether the newest process of that rank is there.
  virtual bool running(std::uint32_t rank) const = 0;
  virtual std::int64_t pid(std::uint32_t rank) const = 0;
  /// An epoch has been formed and not been given up.
  virtual bool running() const = 0;
  /// Ranks of the epoch, ascending.
  virtual std::vector<std::uint32_t> members() const = 0;
  /// Ranks that are heard of, members or not.
  virtual std::vector<std::uint32_t> peers() const = 0;
  /// Members that have said nothing for that long.
  virtual std::vector<std::uint32_t> silent(Nanos span) const = 0;
  virtual bool all_silent() const = 0;
};

}  // namespace orrery::live
