// Transport of the collective algorithms (all_reduce.hpp) over a rank's streams and the memory that
// it shares with some peers: each pair of ranks uses the way on which the two have agreed. Called
// by the fabric's thread.
#pragma once

#include <cstdint>
#include <span>

#include "live/fabric/all_reduce.hpp"
#include "live/fabric/egress.hpp"
#include "live/fabric/out_links.hpp"
#include "live/fabric/peers.hpp"
#include "live/fabric/shared_fate.hpp"

namespace orrery::live {

/// Links of one rank to its peers.
class Exchange : public Links {
 public:
  /// Constructs the transport; all arguments must outlive it.
  Exchange(const SharedFate& fate, Egress& egress, Peers& peers, OutLinks& out)
      : fate_(fate), egress_(egress), peers_(peers), out_(out) {}

  /// Sends and receives at the same time, as Links; opens the link to `to` if `out` is not empty.
  /// Uses memory to each peer with which memory is shared, otherwise the streams. Blocks until both
  /// are done or a link of this rank, to any peer, breaks. Throws FabricBroken, also if a stream
  /// brings more bytes than `in` holds or parts of a unit; shared memory is not checked.
  void exchange(std::uint32_t to, std::span<const std::byte> out, std::uint32_t from,
                Inflow in) override;

 private:
  bool pull_bytes(std::uint32_t from, Inflow& in);

  const SharedFate& fate_;
  Egress& egress_;
  Peers& peers_;
  OutLinks& out_;
};

}  // namespace orrery::live
