// The controller's end of the control plane. Accepts the streams of this run's agents and hands
// their messages to the controller. A stream without the run's token is refused, with a line on
// standard error.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "live/control.pb.h"
#include "live/transport/secrets.hpp"

namespace orrery::live {

/// Server end of the control plane: one stream per rank. Owns the gRPC server. All methods are
/// thread-safe.
class ControlServer {
 public:
  /// Receives the messages of the ranks, the hello of each stream first. Called from gRPC's
  /// threads, for one stream never twice at once. A null `message` means that a stream of `rank`
  /// ended; this call may come during or after the call for the hello of the rank's next stream.
  using Handler = std::function<void(std::uint32_t rank, const AgentMessage* message)>;

  /// Starts the server for ranks 0 to `ranks` - 1. A rank has one stream: a second one is refused
  /// while the first is open. The hello of the same process, or of a later one of the rank, ends
  /// the first stream, so that the next attempt succeeds. An invalid message (message_check.hpp)
  /// ends its stream, with a line on standard error. Throws an environment Error if the server
  /// cannot listen at `address`.
  ControlServer(const std::string& address, const Secrets& secrets, std::uint32_t ranks,
                Handler handler);
  /// Ends all streams, waits for current calls of the handler, and reports each end to the handler,
  /// which is not called afterwards.
  ~ControlServer();

  /// Returns the address at which the server listens; port 0 is replaced by the port in use.
  const std::string& address() const;
  /// Sends `message` to `rank`; may block while the stream is full. Returns false if the rank has
  /// no open stream, before its hello too; true does not mean that the rank has received the
  /// message. Throws std::out_of_range for a rank that the run lacks. May be called from any
  /// thread, also from the handler.
  bool send_message(std::uint32_t rank, const ControllerMessage& message);
  /// Ends the stream of `rank`, if the rank has one; the handler hears of the end later. Throws
  /// std::out_of_range for a rank that the run lacks. May be called from any thread.
  void drop_rank(std::uint32_t rank);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace orrery::live
