// gRPC servers and channels with the secrets of a run. Servers accept only clients with a
// certificate of the run, channels connect only to such servers, and each refused peer gets a line
// on standard error. Both planes (control_server, control_client, grpc_fabric) open their
// connections here. Addresses are "unix:/path" or "host:port". Thread-safe.
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

/// gRPC server and the address at which the server listens; port 0 is replaced by the port in use.
struct Listener {
  std::unique_ptr<grpc::Server> server;
  std::string address;
};

/// Starts a server for `service` at `address`. A message of more than `most_bytes` bytes ends its
/// stream (-1: the service checks sizes itself). `renewed`: the server reads its certificates from
/// their folder once a second, for a server that lives as long as the run; without a folder it
/// keeps those of `secrets`. `service` must outlive the server. Throws an environment Error if the
/// server cannot listen at `address`. If gRPC later can accept no connection any more, this process
/// ends at once with the exit code of an environment Error.
Listener listen(const std::string& address, const Secrets& secrets, grpc::Service& service,
                int most_bytes, bool renewed = false);

/// Returns a channel to `address`; a received message of more than `most_bytes` bytes ends its
/// stream (-1: no limit). The channel connects on its first use, where failures show.
std::shared_ptr<grpc::Channel> open_channel(const std::string& address, const Secrets& secrets,
                                            int most_bytes);

/// Returns true if a process of the run listens at `address`. Blocks until then, for at most
/// `patience`. Without encryption any gRPC server counts.
bool can_connect(const std::string& address, const Secrets& secrets,
                 std::chrono::milliseconds patience);

/// Writes one line about a refused peer to standard error. After a hundred lines of this process,
/// writes one line that says so and then nothing, so that a stranger who connects all day does not
/// fill the disk.
void log_refusal(const std::string& who, const std::string& why);

}  // namespace orrery::live
