// Timeout for streams whose client has not identified itself. A call that has sent no valid first
// message within a few seconds is cancelled, which frees its thread and its connection. One watcher
// thread serves all servers of the process; thread-safe.
#pragma once

#include <chrono>

#include <grpcpp/server_context.h>

namespace orrery::live {

/// Time limit for the first message of a stream, and before that for the certificate of a
/// connection.
inline constexpr std::chrono::milliseconds kDoorPatience{4000};

/// Scoped timeout of one call: cancels the call if this object still exists after kDoorPatience (at
/// most an eighth later). The destructor ends the timeout. The call must outlive this object.
class AtTheDoor {
 public:
  /// Starts the timeout of `call`.
  explicit AtTheDoor(grpc::ServerContext& call);
  ~AtTheDoor();
  AtTheDoor(const AtTheDoor&) = delete;
  AtTheDoor& operator=(const AtTheDoor&) = delete;

 private:
  grpc::ServerContext& call_;
};

}  // namespace orrery::live
