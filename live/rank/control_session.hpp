// A rank's session with its controller, which outlives both streams and controllers: when the
// stream ends, the rank looks for the controller, or for the one that has taken its place, and says
// again what may have been lost with the stream. One thread reads, joins and reconnects; send() may
// be called by any.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "live/control/control_client.hpp"

namespace orrery::live {

class ControlSession {
 public:
  /// Opens the stream and sends `hello`. Does not wait for an answer.
  ControlSession(const std::string& address, const Secrets& secrets, const Hello& hello)
      : client_(address, secrets, hello) {}

  /// The first that the controller says, which is the assignment unless it turns this rank away; a
  /// controller that dies meanwhile is replaced. Nothing: none came in time.
  std::optional<ControllerMessage> join();
  /// Blocks; nothing when the stream has ended.
  std::optional<ControllerMessage> read() { return client_.read(); }
  /// The newest report of a step, of a shard and of a failure are said again on every new stream;
  /// statuses and heartbeats come again by themselves.
  void send(const AgentMessage& message);
  /// After the stream has ended, for as long as `wanted` says and patience lasts. False: nobody was
  /// found, or this rank has been given up.
  bool reconnect(const std::function<bool()>& wanted);
  /// Ends the stream, after what was sent has been delivered. No send() afterwards.
  void finish() { client_.finish(); }

 private:
  void keep(const AgentMessage& message);
  std::vector<AgentMessage> last_words();

  ControlClient client_;
  std::mutex mutex_;  // of the newest, below
  std::optional<AgentMessage> report_, shard_, failure_;
};

}  // namespace orrery::live
