// Socket of the key-value store that the process groups of a user's program share. Used by
// program_run. One thread.
#pragma once

#include <poll.h>

#include <map>
#include <string>
#include <vector>

#include "live/group/frames.hpp"
#include "live/programs/key_value_store.hpp"
#include "live/programs/rank_process.hpp"

namespace orrery::live {

/// Store with its listening socket and the connections of the ranks. Instants are seconds of one
/// monotonic clock.
class StoreServer {
 public:
  /// Listens at the socket `path`. Throws an environment Error if it cannot.
  explicit StoreServer(std::string path);

  /// Returns the path of the socket.
  const std::string& path() const { return path_; }
  /// Adds the descriptors that become readable with requests.
  void add_waiting(std::vector<pollfd>& waiting) const;
  /// Accepts new connections and answers the requests that have arrived, without blocking.
  void serve_requests(double now_s);

 private:
  struct Connection {
    Descriptor socket;
    FrameReader reader;
  };

  const std::string path_;
  Descriptor listener_;
  KeyValueStore store_;
  std::map<int, Connection> connections_;
  int next_connection_ = 0;
};

}  // namespace orrery::live
