// The controller's end of the control plane: listens, lets the agents of this run in, hands their
// messages on. Whoever does not know the token is turned away with a line in the log.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "live/control.pb.h"
#include "live/transport/secrets.hpp"

namespace orrery::live {

class ControlServer {
 public:
  /// Called from the threads of the transport, for one rank never twice at once. Nothing instead
  /// of a message: the stream of that rank ended.
  using Handler = std::function<void(std::uint32_t rank, const AgentMessage* message)>;

  /// Throws an environment Error if it cannot listen at `address`.
  ControlServer(const std::string& address, const Secrets& secrets, std::uint32_t ranks,
                Handler handler);
  ~ControlServer();  ///< ends all streams; no call of the handler afterwards

  /// Where it listens; port 0 has been replaced.
  const std::string& address() const;
  /// False if that rank has no stream now. From any thread.
  bool send(std::uint32_t rank, const ControllerMessage& message);
  /// Ends that rank's stream if it has one. From any thread.
  void drop(std::uint32_t rank);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace orrery::live
