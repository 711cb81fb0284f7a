// Agent's end of the control plane.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "live/control.pb.h"
#include "live/transport/secrets.hpp"

namespace orrery::live {

/// Client end of the control stream between one agent and the controller. Owns the stream.
/// send_message() may be called from any thread; all other methods belong to the thread that reads.
class ControlClient {
 public:
  /// Opens the stream and sends `hello`. Blocks until the connection is made or has failed, not for
  /// an answer; after a failure read() returns nothing.
  ControlClient(const std::string& address, const Secrets& secrets, const Hello& hello);
  /// Cancels the stream; messages that are not sent by then are lost.
  ~ControlClient();

  /// Blocks until the next message of the controller arrives. Returns nothing if the stream has
  /// ended.
  std::optional<ControllerMessage> read();
  /// Sends `message`; may block while the stream is full. Returns false, without an effect, if the
  /// stream has ended; true does not mean that the controller has received the message. May be
  /// called from any thread.
  bool send_message(const AgentMessage& message);
  /// Ends the old stream, if it has not ended, and opens a new one with the newest certificates:
  /// sends the hello and then, before any other message, the messages that `first` returns; `first`
  /// must not call this object. The next read() shows whether the controller accepted the stream.
  /// Must be called by the thread that reads.
  void reopen_stream(const std::function<std::vector<AgentMessage>()>& first);
  /// Announces the end of this side's messages, after those that were sent; read() still returns
  /// messages of the controller. No send_message() may follow.
  void finish_stream();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace orrery::live
