// A fabric as an epoch of a live run makes it: every rank opens one, tells where it can be reached,
// and learns its place among the others later. As Fabric: one thread, abort() from any.
#pragma once

#include <string>
#include <vector>

#include "live/fabric.hpp"

namespace orrery::live {

class JoiningFabric : public Fabric {
 public:
  /// What the other ranks need to reach this one.
  virtual const std::string& address() const = 0;
  /// Joins as rank `rank` of as many as there are addresses, which are the ranks'. Throws
  /// FabricBroken.
  virtual void connect(std::uint32_t rank, const std::vector<std::string>& addresses) = 0;
};

}  // namespace orrery::live
