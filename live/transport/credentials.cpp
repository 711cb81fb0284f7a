#include "live/transport/credentials.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>

#include <fmt/format.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include "core/error.hpp"
#include "live/transport/doorman.hpp"

namespace orrery::live {
namespace {

constexpr int kMostRefusalLines = 100;
constexpr unsigned kWatchSeconds = 1;
constexpr int kPingMs = 2000, kPongMs = 3000;  // A cut link is noticed within 5 s.

void say(const std::string& line) {
  static std::atomic<int> lines = 0;
  const int before = lines++;
  if (before < kMostRefusalLines) fmt::print(stderr, "orrery-live: {}\n", line);
  if (before == kMostRefusalLines) {
    fmt::print(stderr, "orrery-live: more refusals are not listed\n");
  }
}

/// Writes gRPC's own errors (for example a failed handshake) in the form of Orrery's errors.
void pass_on(gpr_log_func_args* said) {
  if (said->severity != GPR_LOG_SEVERITY_ERROR) return;
  // gRPC without descriptors or memory (seen with 1.51) abandons the port for good and logs only
  // this message: no process could connect to this process any more. A successor of this process
  // listens again.
  if (std::strstr(said->message, "Failed accept") != nullptr) {
    fmt::print(stderr, "orrery-live: this process can accept no connection any more and ends: {}\n",
               said->message);
    _exit(static_cast<int>(ErrorKind::environment));
  }
  const bool handshake = std::strstr(said->message, "andshake") != nullptr;
  say(fmt::format("{}: {}", handshake ? "refused a connection" : "transport", said->message));
}

/// Routes gRPC's errors to pass_on(). Keeps the gRPC library initialized for the life of the
/// process: if the last connection released the library, the release could wait 10 s for an idle
/// polling thread of gRPC (seen with 1.51 after large messages).
void hear_complaints() {
  static std::once_flag once;
  std::call_once(once, [] {
    gpr_set_log_function(pass_on);
    grpc_init();
  });
}

/// Returns credentials that read key and certificate from `folder` again when the files change;
/// open connections keep the old ones.
std::shared_ptr<grpc::ServerCredentials> watched_credentials(const std::string& folder) {
  using grpc::experimental::FileWatcherCertificateProvider;
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<FileWatcherCertificateProvider>(
          folder + "/key.pem", folder + "/certificate.pem", folder + "/ca.pem", kWatchSeconds));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  return grpc::experimental::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ServerCredentials> server_credentials(const Secrets& secrets, bool renewed) {
  if (!secrets.is_encrypted()) return grpc::InsecureServerCredentials();
  if (renewed && !secrets.folder.empty()) return watched_credentials(secrets.folder);
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = secrets.authority;
  options.pem_key_cert_pairs.push_back({secrets.key, secrets.certificate});
  return grpc::SslServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const Secrets& secrets) {
  if (!secrets.is_encrypted()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = secrets.authority;
  options.pem_private_key = secrets.key;
  options.pem_cert_chain = secrets.certificate;
  return grpc::SslCredentials(options);
}

}  // namespace

Listener listen(const std::string& address, const Secrets& secrets, grpc::Service& service,
                int most_bytes, bool renewed) {
  hear_complaints();
  Listener listener{.server = nullptr, .address = address};
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, server_credentials(secrets, renewed), &port);
  // No second process may share the port.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(most_bytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kPingMs / 2);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  // A peer that shows no certificate or opens no stream before this timeout loses its connection,
  // which frees the descriptor.
  const auto patience = static_cast<int>(kDoorPatience.count());
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, patience);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, patience);
  builder.RegisterService(&service);
  listener.server = builder.BuildAndStart();
  if (!listener.server || port == 0) {
    throw Error(ErrorKind::environment,
                fmt::format("expected a free address to listen at, found that '{}' cannot be used; "
                            "choose another address",
                            address));
  }
  if (address.ends_with(":0")) {
    listener.address = fmt::format("{}{}", address.substr(0, address.size() - 1), port);
  }
  return listener;
}

std::shared_ptr<grpc::Channel> open_channel(const std::string& address, const Secrets& secrets,
                                            int most_bytes) {
  hear_complaints();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(most_bytes);
  // A failed attempt must not delay the next attempts: a process that died may be back within a
  // moment.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // Proxies of the environment are ignored: ranks connect directly.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (!address.starts_with("unix:")) {
    // A cut link reports no error for as long as TCP retries.
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingMs);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPongMs);
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  }
  if (secrets.is_encrypted()) arguments.SetSslTargetNameOverride(kCertifiedName);
  return grpc::CreateCustomChannel(address, channel_credentials(secrets), arguments);
}

bool can_connect(const std::string& address, const Secrets& secrets,
                 std::chrono::milliseconds patience) {
  return open_channel(address, secrets, 1)
      ->WaitForConnected(std::chrono::system_clock::now() + patience);
}

void log_refusal(const std::string& who, const std::string& why) {
  say(fmt::format("refused {}: {}", who.starts_with("unix:") ? "a process here" : who, why));
}

}  // namespace orrery::live
