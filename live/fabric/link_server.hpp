// Receiving end of a rank's links: listens, accepts peers that know the run's token and are ranks
// of the fabric, each once, and stores the received data. Links that arrive before this rank knows
// its number wait. gRPC's threads serve, one for each link; the fabric's thread constructs the
// server and admits peers.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "live/data.pb.h"
#include "live/fabric/peers.hpp"
#include "live/fabric/shared_fate.hpp"
#include "live/transport/byte_service.hpp"
#include "live/transport/credentials.hpp"
#include "live/transport/secrets.hpp"

namespace orrery::live {

/// Server of the incoming links of one rank. The end of an accepted link breaks `fate`; the break
/// of `fate` ends all links and refuses later ones.
class LinkServer {
 public:
  /// Listens at `address`. Throws an environment Error if that fails. `fate` must outlive the
  /// server and be broken before its destruction.
  LinkServer(const std::string& address, const Secrets& secrets, SharedFate& fate);
  /// Stops listening and blocks until the threads that serve links have ended.
  ~LinkServer();

  /// Returns the listening address, with the real port instead of 0.
  const std::string& address() const { return listener_.address; }
  /// Accepts links of these peers from now on, also those that have waited. Call once; `peers` must
  /// outlive the server.
  void admit_peers(Peers& peers);

 private:
  using Service = ByteService<Pong>;
  grpc::Status serve_link(grpc::ServerContext& link, Service::Stream& stream);
  const char* objection(const Piece& first);
  const char* serve_stream(Service::Stream& stream, const LinkHello& hello);
  void close(const std::string& why);

  const Secrets secrets_;
  SharedFate& fate_;
  std::mutex mutex_;  // guards everything down to `closed_`
  std::condition_variable changed_;
  Peers* peers_ = nullptr;               ///< null: not known yet
  std::vector<bool> linked_;             ///< indexed by rank: true if its link is open
  std::set<grpc::ServerContext*> open_;  ///< links to cancel
  std::optional<std::string> closed_;    ///< reason; nothing while open
  Service service_;
  Listener listener_;
};

}  // namespace orrery::live
