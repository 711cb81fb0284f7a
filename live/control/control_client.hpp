// An agent's end of the control plane.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "live/control.pb.h"
#include "live/transport/secrets.hpp"

namespace orrery::live {

class ControlClient {
 public:
  /// Opens the stream and sends `hello`. Does not wait for an answer.
  ControlClient(const std::string& address, const Secrets& secrets, const Hello& hello);
  ~ControlClient();

  /// Blocks; nothing when the stream has ended. One thread reads.
  std::optional<ControllerMessage> read();
  /// False when the stream has ended. From any thread.
  bool send(const AgentMessage& message);
  /// Opens the stream anew after it has ended: sends the hello and then, before anything else, what
  /// `first` says. Whether the controller took it, the next read() tells. By the thread that reads.
  void reopen(const std::function<std::vector<AgentMessage>()>& first);
  /// Ends the stream, after what was sent has been delivered. No send() afterwards.
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace orrery::live
