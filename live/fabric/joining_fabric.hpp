// A fabric as an epoch of a live run makes it: every rank opens one, tells where it can be reached,
// and learns its place among the others later. As Fabric: one thread, abort() from any.
#pragma once

#include <string>
#include <vector>

#include "live/fabric/fabric.hpp"

namespace orrery::live {

class JoiningFabric : public Fabric {
 public:
  /// What the other ranks need to reach this one.
  virtual const std::string& address() const = 0;
  /// Joins as rank `rank` of as many as there are addresses, which are the ranks'. Throws
  /// FabricBroken.
  virtual void connect(std::uint32_t rank, const std::vector<std::string>& addresses) = 0;
  /// From now on this rank sends at most so many bytes a second, as if its NIC were that slow; 0:
  /// as fast as it goes. From any thread. What cannot be slowed is not asked to (requirements.hpp).
  virtual void set_link_rate(double bytes_per_second) = 0;
};

}  // namespace orrery::live
