// What the algorithms of collectives (all_reduce.hpp) need of their transport, over a rank's links
// and the memory that it shares with some of its peers: each pair of ranks goes the way on which
// the two have agreed. The fabric's thread.
#pragma once

#include <cstdint>
#include <span>

#include "live/fabric/all_reduce.hpp"
#include "live/fabric/egress.hpp"
#include "live/fabric/out_links.hpp"
#include "live/fabric/peers.hpp"
#include "live/fabric/shared_fate.hpp"

namespace orrery::live {

class Exchange : public Links {
 public:
  /// All arguments outlive it.
  Exchange(const SharedFate& fate, Egress& egress, Peers& peers, OutLinks& out)
      : fate_(fate), egress_(egress), peers_(peers), out_(out) {}

  /// Throws FabricBroken.
  void exchange(std::uint32_t to, std::span<const std::byte> out, std::uint32_t from,
                Inflow in) override;

 private:
  bool pull(std::uint32_t from, Inflow& in);

  const SharedFate& fate_;
  Egress& egress_;
  Peers& peers_;
  OutLinks& out_;
};

}  // namespace orrery::live
