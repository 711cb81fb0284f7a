// Session of one rank with its controller, which survives the loss of a stream or of a controller.
// If the stream ends, the rank connects to the controller, or to the controller's successor, and
// repeats the messages that may be lost with the stream. One thread reads, joins and reconnects;
// send_message() may be called by any thread.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "live/control/control_client.hpp"

namespace orrery::live {

/// Session of one rank with its controller; owns the control stream.
class ControlSession {
 public:
  /// Opens the stream and sends `hello`. Blocks until the connection is made or has failed, not for
  /// an answer; the failure shows in join(). Copies `secrets`.
  ControlSession(const std::string& address, const Secrets& secrets, const Hello& hello)
      : client_(address, secrets, hello) {}

  /// Returns the controller's first message, which is the assignment unless the controller refuses
  /// this rank. Blocks until a message arrives or the stream ends; after the end of a stream,
  /// reconnects, for the last time 10 s after the call. Returns nothing if the stream ends without
  /// a message after that time. Call once, first.
  std::optional<ControllerMessage> join();
  /// Blocks until the next message of the controller arrives. Returns nothing if the stream has
  /// ended.
  std::optional<ControllerMessage> read() { return client_.read(); }
  /// Sends `message`; an ended stream is no error. The newest step report, shard report and failure
  /// are sent again on every new stream; statuses and heartbeats are periodic and need no
  /// repetition.
  void send_message(const AgentMessage& message);
  /// Reconnects after the end of the stream, repeatedly while `wanted` returns true; no attempt
  /// begins after 10 s. Blocks until a controller has sent its assignment, which is dropped. A
  /// first message of another kind is dropped too, and the attempt repeated. Returns false if no
  /// controller was found, if `wanted` returned false, or if the controller answers with a stop,
  /// because it counts this rank as lost. Call from the thread that reads, after read() returned
  /// nothing.
  bool reconnect_stream(const std::function<bool()>& wanted);
  /// Announces the end of this rank's messages, after those that were sent; does not wait for an
  /// answer, and read() still returns messages. No send_message() may follow.
  void finish_stream() { client_.finish_stream(); }

 private:
  /// Stores `message` if it must be repeated on a new stream.
  void keep_message(const AgentMessage& message);
  /// Returns the messages to repeat on a new stream.
  std::vector<AgentMessage> last_words();

  ControlClient client_;
  std::mutex mutex_;  // Guards the three messages below.
  std::optional<AgentMessage> report_, shard_, failure_;
};

}  // namespace orrery::live
