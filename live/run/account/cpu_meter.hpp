// CPU time that the ranks of a run have used, over all processes that a rank has had: each counts
// its own, from whenever it was started. Fed by the run's account with what the processes say; one
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/ids.hpp"

namespace orrery::live {

class CpuMeter {
 public:
  explicit CpuMeter(std::uint32_t ranks) : ranks_(ranks) {}

  /// A process of that rank says hello; it does so again on every new stream.
  void hello(std::uint32_t rank, std::uint32_t life);
  /// What that rank's process has used in all; its first word is the zero of its count.
  void used(std::uint32_t rank, Nanos cpu);

  /// By rank.
  std::vector<Nanos> so_far() const;
  Nanos total() const;
  /// What had been used under an earlier controller, by rank.
  void restore(const std::vector<Nanos>& so_far);

 private:
  struct Rank {
    std::optional<std::uint32_t> life;
    Nanos first = -1, newest = 0;  ///< of its process; -1: has said nothing yet
    Nanos before = 0;              ///< of earlier processes
    Nanos own() const { return first < 0 ? 0 : newest - first; }
  };
  std::vector<Rank> ranks_;
};

}  // namespace orrery::live
