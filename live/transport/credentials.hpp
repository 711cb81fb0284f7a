// Where gRPC meets a run's secrets: servers that let nobody in without a certificate of the run,
// channels that talk to nobody else, and one line on standard error for whoever was turned away.
// The two planes (control_server, control_client, grpc_fabric) open their connections here.
// Addresses are "unix:/path" or "host:port". Thread-safe.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "live/transport/secrets.hpp"

namespace grpc {
class Channel;
class Server;
class Service;
}  // namespace grpc

namespace orrery::live {

/// A server, and where it really listens: port 0 is replaced by a free one.
struct Listener {
  std::unique_ptr<grpc::Server> server;
  std::string address;
};

/// Offers `service` at `address`; a message of more bytes than `most_bytes` ends its stream (-1:
/// the service weighs messages itself). `renewed`: for as long as the run lasts, so certificates
/// are read from their folder once a second. Throws an environment Error if it cannot listen there.
Listener listen(const std::string& address, const Secrets& secrets, grpc::Service& service,
                int most_bytes, bool renewed = false);

/// Connects when it is first used.
std::shared_ptr<grpc::Channel> open_channel(const std::string& address, const Secrets& secrets,
                                            int most_bytes);

/// Whether somebody of the run listens at `address`; waits at most `patience`.
bool can_connect(const std::string& address, const Secrets& secrets,
                 std::chrono::milliseconds patience);

/// Says so in one line. After a hundred lines of this process no more: a stranger who knocks all
/// day does not fill the disk.
void log_refusal(const std::string& who, const std::string& why);

}  // namespace orrery::live
