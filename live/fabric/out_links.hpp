// The sending end of a rank's links: opens a stream to each rank to which something is sent,
// greets, writes pieces, and hears the answers: who shares memory with us, and the round trip. The
// fabric's thread calls; each link has a thread of its own that reads.
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

class OutLinks {
 public:
  /// All arguments outlive this; the fate has been broken before it goes.
  OutLinks(const Secrets& secrets, SharedFate& fate, Egress& egress, Peers& peers);
  ~OutLinks();

  /// Where the ranks listen.
  void set_addresses(std::vector<std::string> addresses) { addresses_ = std::move(addresses); }
  /// Opens the link to a rank, which listens, unless it is there. Throws FabricBroken, as do the
  /// next three.
  void open(std::uint32_t to) { link_to(to); }
  /// Waits for its answer, since only that says which way collectives go: the bell of the other end
  /// if memory is shared with it, or null.
  Bell* welcome(std::uint32_t to);
  /// Sends the first of `bytes`, as much as a piece holds, and takes it off; `direct`: no
  /// collective's.
  void send_piece(std::uint32_t to, std::span<const std::byte>& bytes, bool direct);
  /// Now and then: a small message to the next rank, and back.
  void ping();
  /// Of the newest ping, seconds; 0: none has come back yet.
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
  std::mutex mutex_;  // of everything below
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Link>> links_;  ///< by rank
  std::optional<std::string> closed_;         ///< why; nothing while open
};

}  // namespace orrery::live
