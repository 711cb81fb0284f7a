// Shows out who has opened a stream and does not say who he is: a call that is still at the door
// after a few seconds is cancelled, which gives its thread and its connection back. One thread for
// all servers of the process; thread-safe.
#pragma once

#include <chrono>

#include <grpcpp/server_context.h>

namespace orrery::live {

/// Until the first message of a stream has been read, and before that until a connection has shown
/// its certificate.
inline constexpr std::chrono::milliseconds kDoorPatience{4000};

/// While it lives the call waits at the door; the call outlives it.
class AtTheDoor {
 public:
  explicit AtTheDoor(grpc::ServerContext& call);
  ~AtTheDoor();
  AtTheDoor(const AtTheDoor&) = delete;
  AtTheDoor& operator=(const AtTheDoor&) = delete;

 private:
  grpc::ServerContext& call_;
};

}  // namespace orrery::live
