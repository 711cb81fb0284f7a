// The receiving end of a rank's links: listens, lets in who greets with the run's token and is a
// rank of the fabric, each once, and takes what they send. Links that come before this rank knows
// its place wait. gRPC's threads serve, one a link; the fabric's thread makes it and admits.
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

class LinkServer {
 public:
  /// Throws an environment Error if it cannot listen at `address`. The fate outlives it, and has
  /// been broken before it goes.
  LinkServer(const std::string& address, const Secrets& secrets, SharedFate& fate);
  ~LinkServer();

  /// Where it listens; port 0 has been replaced.
  const std::string& address() const { return listener_.address; }
  /// From now on links of these peers come in, which outlive this.
  void admit(Peers& peers);

 private:
  using Service = ByteService<Pong>;
  grpc::Status serve_link(grpc::ServerContext& link, Service::Stream& stream);
  const char* objection(const Piece& first);
  const char* serve(Service::Stream& stream, const LinkHello& hello);
  void close(const std::string& why);

  const Secrets secrets_;
  SharedFate& fate_;
  std::mutex mutex_;  // of everything down to `closed_`
  std::condition_variable changed_;
  Peers* peers_ = nullptr;               ///< not known yet
  std::vector<bool> linked_;             ///< by rank: its link is here
  std::set<grpc::ServerContext*> open_;  ///< to be cancelled
  std::optional<std::string> closed_;    ///< why; nothing while open
  Service service_;
  Listener listener_;
};

}  // namespace orrery::live
