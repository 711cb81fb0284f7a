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
constexpr int kPingMs = 2000, kPongMs = 3000;  // so a cut link is noticed within 5 s

void say(const std::string& line) {
  static std::atomic<int> lines = 0;
  const int before = lines++;
  if (before < kMostRefusalLines) fmt::print(stderr, "orrery-live: {}\n", line);
  if (before == kMostRefusalLines) {
    fmt::print(stderr, "orrery-live: more refusals are not listed\n");
  }
}

/// gRPC's own complaints (a failed handshake is one) in the form of ours.
void pass_on(gpr_log_func_args* said) {
  if (said->severity != GPR_LOG_SEVERITY_ERROR) return;
  // Without descriptors or memory gRPC (seen with 1.51) gives the port up for good and says only
  // this: nobody could join this process any more. Another one in its place listens again.
  if (std::strstr(said->message, "Failed accept") != nullptr) {
    fmt::print(stderr, "orrery-live: nobody can connect any more: {}\n", said->message);
    _exit(static_cast<int>(ErrorKind::environment));
  }
  const bool handshake = std::strstr(said->message, "andshake") != nullptr;
  say(fmt::format("{}: {}", handshake ? "refused a connection" : "transport", said->message));
}

/// The library stays for as long as the process: when the last connection takes it along, that can
/// wait 10 s for a thread of gRPC's that polls for nobody (seen with 1.51 after large messages).
void hear_complaints() {
  static std::once_flag once;
  std::call_once(once, [] {
    gpr_set_log_function(pass_on);
    grpc_init();
  });
}

/// Key and certificate as they stand in the folder; connections that are open keep theirs.
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
  if (!secrets.encrypted()) return grpc::InsecureServerCredentials();
  if (renewed && !secrets.folder.empty()) return watched_credentials(secrets.folder);
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = secrets.authority;
  options.pem_key_cert_pairs.push_back({secrets.key, secrets.certificate});
  return grpc::SslServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const Secrets& secrets) {
  if (!secrets.encrypted()) return grpc::InsecureChannelCredentials();
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
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // a port has one owner
  builder.SetMaxReceiveMessageSize(most_bytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kPingMs / 2);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  // Who has not shown a certificate by then, or opens no stream, gives the descriptor back.
  const auto patience = static_cast<int>(kDoorPatience.count());
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, patience);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, patience);
  builder.RegisterService(&service);
  listener.server = builder.BuildAndStart();
  if (!listener.server || port == 0) {
    throw Error(ErrorKind::environment, fmt::format("cannot listen at '{}'", address));
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
  // A failed attempt must not hold back the next ones: who has died may be back within a moment.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // of the environment: ranks meet directly
  if (!address.starts_with("unix:")) {
    // A way that is cut says nothing by itself for as long as TCP tries again.
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingMs);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPongMs);
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  }
  if (secrets.encrypted()) arguments.SetSslTargetNameOverride(kCertifiedName);
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
