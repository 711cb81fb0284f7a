// Who has not been heard for too long. Nanoseconds on one clock; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/ids.hpp"

namespace orrery::live {

class Silence {
 public:
  Silence(std::uint32_t ranks, Nanos limit) : limit_(limit), heard_(ranks, 0) {}

  void heard(std::uint32_t rank, Nanos now) { heard_.at(rank) = now; }
  /// A rank silent for the limit, if any. Called many times a second: a listener that was itself
  /// away (stopped from the terminal, or waiting for a policy) holds that against nobody.
  std::optional<std::uint32_t> find(Nanos now);

 private:
  const Nanos limit_;
  Nanos looked_ = 0;
  std::vector<Nanos> heard_;  ///< by rank
};

}  // namespace orrery::live
