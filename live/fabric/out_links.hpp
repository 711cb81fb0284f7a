// Sending end of a rank's links: opens a stream to each rank that receives from this one, sends the
// hello and the pieces, and reads the answers: shared memory and round trips. Called by the
// fabric's thread; each link has its own reading thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "live/data.pb.h"
#include "live/fabric/egress.hpp"
#include "live/fabric/peers.hpp"
#include "live/fabric/shared_fate.hpp"
#include "live/transport/secrets.hpp"

namespace orrery::live {

/// Outgoing links of one rank.
class OutLinks {
 public:
  /// Constructs the links; all arguments must outlive them, and `fate` must be broken before the
  /// destruction.
  OutLinks(const Secrets& secrets, SharedFate& fate, Egress& egress, Peers& peers);
  /// Blocks until the reading threads have ended, which the break of `fate` causes.
  ~OutLinks();

  /// Sets the addresses of the ranks, indexed by rank. Call before any link is opened.
  void set_addresses(std::vector<std::string> addresses) { addresses_ = std::move(addresses); }
  /// Opens the link to a rank, unless the link was opened before, which is not checked further;
  /// blocks until the rank listens, or the links break, but not for its answer (await_welcome()).
  /// Throws FabricBroken if the links have broken, and std::out_of_range for a rank without an
  /// address. The next three functions open the link too and throw the same, also for an open link
  /// that has broken.
  void open(std::uint32_t to) { link_to(to); }
  /// Blocks until the peer's first answer, which decides the way of collectives. Returns the bell
  /// of the peer if memory is shared with it, or null.
  Bell* await_welcome(std::uint32_t to);
  /// Sends the first of `bytes`, as many as a piece holds, and removes them from the span;
  /// `direct`: not part of a collective. Waits for the turn of the Egress, not for the receiver.
  void send_piece(std::uint32_t to, std::span<const std::byte>& bytes, bool direct);
  /// Sends a small message to the next rank, which the rank returns; does nothing, and throws
  /// nothing, within 20 ms of the previous message. Does not wait for the answer. Needs at least
  /// two ranks.
  void ping();
  /// Returns the round trip of the newest answered ping in seconds; 0: no answer yet. May be called
  /// from any thread.
  double round_trip() const { return round_trip_s_; }

 private:
  struct Link;
  Link& link_to(std::uint32_t to);
  void read_answers(std::uint32_t to, Link& link);
  Piece hello() const;
  void write(Link& link, const grpc::ByteBuffer& piece, std::uint32_t to);
  void close(const std::string& why);

  const Secrets& secrets_;
  SharedFate& fate_;
  Egress& egress_;
  Peers& peers_;
  std::vector<std::string> addresses_;
  std::uint64_t pinged_ = 0;
  std::atomic<double> round_trip_s_{0};
  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Link>> links_;  ///< indexed by rank
  std::optional<std::string> closed_;         ///< reason; nothing while open
};

}  // namespace orrery::live
