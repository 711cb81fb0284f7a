// Strangers at both planes: a client without the run's certificate or token, with another protocol
// or with malformed messages is refused with one line, and the run continues.
#include "live/transport/credentials.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <future>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include "core/error.hpp"
#include "core/files/socket_address.hpp"
#include "core/random.hpp"
#include "live/control.grpc.pb.h"
#include "live/control/control_client.hpp"
#include "live/control/control_server.hpp"
#include "live/control/protocol.hpp"
#include "live/data.grpc.pb.h"
#include "live/fabric/grpc_fabric.hpp"
#include "live/run/files/run_folder.hpp"

namespace orrery::live {
namespace {

Hello hello(const std::string& token) {
  Hello out;
  out.set_protocol(kProtocol);
  out.set_token(token);
  return out;
}

std::size_t lines_of(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

/// Redirects standard error to a file during its lifetime, so that it can be read meanwhile:
/// GoogleTest's own capture must end before its text can be read, and loses the text before the
/// next begin.
class SaidOnStderr {
 public:
  SaidOnStderr() : before_(dup(STDERR_FILENO)), file_(std::tmpfile()) {
    std::fflush(stderr);
    dup2(fileno(file_), STDERR_FILENO);
  }
  ~SaidOnStderr() {
    std::fflush(stderr);
    dup2(before_, STDERR_FILENO);
    close(before_);
    std::fclose(file_);
  }
  SaidOnStderr(const SaidOnStderr&) = delete;
  SaidOnStderr& operator=(const SaidOnStderr&) = delete;

  std::string text() const {
    std::fflush(stderr);
    std::string all(1 << 16, '\0');
    const ssize_t got = pread(fileno(file_), all.data(), all.size(), 0);
    all.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return all;
  }

 private:
  const int before_;
  std::FILE* const file_;
};

/// A controller at a socket or at a port of loopback, by the parameter.
class Door : public ::testing::TestWithParam<const char*> {
 protected:
  std::string place() const {
    return std::string(GetParam()) == "unix" ? "unix:" + folder_.path() + "/door" : "127.0.0.1:0";
  }

  /// Returns the text on standard error after `knock`, once `lines` lines are there (at most 10 s).
  static std::string said_after(const std::function<void()>& knock, std::size_t lines) {
    const SaidOnStderr said;
    knock();
    for (int i = 0; i < 1000 && lines_of(said.text()) < lines; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return said.text();
  }

  /// Whether a stream that begins with `first` is ended by the other side.
  bool refused(const Secrets& secrets, const Hello& first) const {
    ControlClient client(server_.address(), secrets, first);
    return !client.read().has_value();
  }

  /// Whether `count` goes past `before` (within 10 s).
  static bool grows(const std::atomic<int>& count, int before) {
    for (int i = 0; i < 1000 && count == before; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return count > before;
  }

  /// One comes and goes again: its seat is free afterwards.
  void expect_members_come_in() {
    const int heard = heard_, left = left_;
    {
      ControlClient member(server_.address(), secrets_, hello(secrets_.token));
      EXPECT_TRUE(grows(heard_, heard));
    }
    EXPECT_TRUE(grows(left_, left));
  }

  /// Connects without gRPC and sends `bytes`; returns when the other side has closed.
  void send_raw(const std::string& bytes) const {
    const std::string& address = server_.address();
    const bool local = address.starts_with("unix:");
    const int raw = socket(local ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
    int connected = -1;
    if (local) {
      const sockaddr_un to = socket_address(address.substr(5));
      connected = connect(raw, reinterpret_cast<const sockaddr*>(&to), sizeof to);
    } else {
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(static_cast<std::uint16_t>(
          std::stoi(address.substr(address.rfind(':') + 1))));
      inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
      connected = connect(raw, reinterpret_cast<sockaddr*>(&to), sizeof to);
    }
    EXPECT_EQ(connected, 0);
    send(raw, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    shutdown(raw, SHUT_WR);
    char rest[4096];
    while (recv(raw, rest, sizeof rest, 0) > 0) {
    }
    close(raw);
  }

  const RunFolder folder_;
  const Secrets secrets_ = make_secrets(true);
  std::atomic<int> heard_ = 0, left_ = 0;  ///< messages; streams that ended
  ControlServer server_{place(), secrets_, 1,
                        [this](std::uint32_t, const AgentMessage* message) {
                          ++(message ? heard_ : left_);
                        }};
};

TEST_P(Door, AStrangerWithoutACertificateIsRefusedInOneLine) {
  const Secrets bare{.token = secrets_.token};
  const std::string said =
      said_after([&] { EXPECT_TRUE(refused(bare, hello(bare.token))); }, 1);
  EXPECT_EQ(lines_of(said), 1u) << said;
  EXPECT_NE(said.find("refused"), std::string::npos) << said;
  EXPECT_EQ(heard_, 0);
  expect_members_come_in();
}

TEST_P(Door, ACertificateOfAnotherAuthorityIsRefused) {
  Secrets other = make_secrets(true);
  other.token = secrets_.token;
  EXPECT_TRUE(refused(other, hello(other.token)));  // does not trust us either
  other.authority = secrets_.authority;             // trusts us: we do not trust it
  const std::string said = said_after([&] { refused(other, hello(other.token)); }, 1);
  EXPECT_NE(said.find("refused"), std::string::npos) << said;
  EXPECT_EQ(heard_, 0);
  expect_members_come_in();
}

TEST_P(Door, AWrongTokenOrProtocolIsRefusedInOneLine) {
  Hello old = hello(secrets_.token);
  old.set_protocol(kProtocol + 1);
  for (const Hello& first : {hello("guess"), old}) {
    const std::string said = said_after([&] { EXPECT_TRUE(refused(secrets_, first)); }, 1);
    EXPECT_EQ(lines_of(said), 1u) << said;
    EXPECT_NE(said.find("refused"), std::string::npos) << said;
    EXPECT_EQ(said.find(secrets_.token), std::string::npos);
  }
  EXPECT_EQ(heard_, 0);
  expect_members_come_in();
}

TEST_P(Door, RandomBytesChangeNothing) {
  Rng rng(7);
  for (int i = 0; i < 20; ++i) {
    std::string bytes(1 + rng.below(4000), '\0');
    for (char& byte : bytes) byte = static_cast<char>(rng.below(256));
    send_raw(bytes);
  }
  send_raw("GET / HTTP/1.1\r\n\r\n");
  send_raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  EXPECT_EQ(heard_, 0);
  expect_members_come_in();
}

TEST_P(Door, TooMuchIsRefusedWhileTheSenderHoldsItsStream) {
  for (const bool seated : {false, true}) {
    for (const int bytes : {kMostControlBytes + 1, 3 * kMostControlBytes}) {
      const int before = heard_;
      AgentMessage huge;
      huge.mutable_failed()->set_reason(std::string(static_cast<std::size_t>(bytes), 'x'));
      const auto stub = Control::NewStub(open_channel(server_.address(), secrets_, -1));
      grpc::ClientContext context;
      const auto stream = stub->Session(&context);
      const auto says_too_much = [&] {
        AgentMessage first;
        *first.mutable_hello() = hello(secrets_.token);
        if (seated) stream->Write(first);
        stream->Write(huge);
        ControllerMessage answer;
        EXPECT_FALSE(stream->Read(&answer));
      };
      const std::string said = said_after(says_too_much, 1);
      EXPECT_EQ(lines_of(said), 1u) << said;
      EXPECT_NE(said.find("too large"), std::string::npos) << said;
      EXPECT_EQ(heard_, before + (seated ? 1 : 0));
      stream->Finish();  // only now does the sender let go
      expect_members_come_in();
    }
  }
}

TEST_P(Door, AMemberThatSendsNoMessageIsRefused) {
  grpc::GenericStub stub(open_channel(server_.address(), secrets_, -1));
  grpc::ClientContext context;
  grpc::CompletionQueue events;
  const auto stream = stub.PrepareCall(&context, "/orrery.live.Control/Session", &events);
  const auto done = [&events] {
    void* what = nullptr;
    bool good = false;
    return events.Next(&what, &good) && good;
  };
  stream->StartCall(nullptr);
  ASSERT_TRUE(done());
  const auto says_nonsense = [&] {
    const grpc::Slice bytes(std::string(100, '\xff'));
    stream->Write(grpc::ByteBuffer(&bytes, 1), nullptr);
    done();
    grpc::ByteBuffer answer;
    stream->Read(&answer, nullptr);
    EXPECT_FALSE(done());
  };
  const std::string said = said_after(says_nonsense, 1);
  EXPECT_EQ(lines_of(said), 1u) << said;
  EXPECT_NE(said.find("cannot be read"), std::string::npos) << said;
  grpc::Status status;
  stream->Finish(&status, nullptr);
  done();
  EXPECT_EQ(heard_, 0);
  expect_members_come_in();
}

INSTANTIATE_TEST_SUITE_P(All, Door, ::testing::Values("unix", "tcp"));

TEST(Credentials, TheDataPlaneTurnsStrangersAwayToo) {
  const RunFolder folder;
  const Secrets secrets = make_secrets(true);
  Secrets other = make_secrets(true);
  other.authority = secrets.authority;
  GrpcFabric one(0, 2, "127.0.0.1:0", secrets), two(1, 2, "127.0.0.1:0", secrets);
  const std::vector<std::string> addresses{one.address(), two.address()};
  for (const Secrets& wrong : {other, Secrets{.token = secrets.token}}) {
    GrpcFabric stranger(0, 2, "127.0.0.1:0", wrong);
    const std::jthread giving_up([&stranger] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      stranger.abort("enough");
    });
    std::vector<float> values(10, 1.0F);
    EXPECT_THROW(
        {
          stranger.connect_next(addresses);
          stranger.all_reduce(values);
        },
        FabricBroken);
  }
  one.connect_next(addresses);
  two.connect_next(addresses);
  std::vector<float> a(1000, 1.0F), b(1000, 2.0F);
  std::jthread thread([&] { one.all_reduce(a); });
  two.all_reduce(b);
  EXPECT_EQ(b[999], 3.0F);
}

TEST(Credentials, ANeighbourThatSendsTooMuchBreaksTheLinksAndIsNamed) {
  const RunFolder folder;
  const Secrets secrets = make_secrets(true);
  GrpcFabric fabric(0, 2, "127.0.0.1:0", secrets);
  const auto stub = Neighbour::NewStub(open_channel(fabric.address(), secrets, -1));
  grpc::ClientContext context;
  const auto stream = stub->Link(&context);
  const SaidOnStderr said;
  Piece piece;
  piece.mutable_hello()->set_rank(1);
  piece.mutable_hello()->set_token(secrets.token);
  stream->Write(piece);
  piece.set_data(std::string(5 << 20, 'x'));
  stream->Write(piece);
  std::vector<std::byte> nothing(1);
  EXPECT_THROW(fabric.receive_from(1, nothing), FabricBroken);
  EXPECT_NE(said.text().find("what rank 1 sends: its message is too large"), std::string::npos)
      << said.text();
}

TEST(Credentials, APortHasOneOwner) {
  const auto nothing = [](std::uint32_t, const AgentMessage*) {};
  const ControlServer first("127.0.0.1:0", make_secrets(false), 1, nothing);
  EXPECT_THROW(ControlServer(first.address(), make_secrets(false), 1, nothing), Error);
}

TEST(Age, NoConnectionIsMadeWithWhatHasExpired) {
  using std::chrono::hours;
  for (const int passed : {0, 23, 25, 30 * 24}) {
    const Secrets secrets = make_secrets(true, hours(passed));
    const SaidOnStderr said;
    ControlServer server("127.0.0.1:0", secrets, 1, [](std::uint32_t, const AgentMessage*) {});
    const bool valid = passed < 24;
    EXPECT_EQ(can_connect(server.address(), secrets, std::chrono::seconds(valid ? 10 : 1)), valid)
        << passed << " h";
  }
}

/// A server lives as long as the run: it uses the renewed files in the folder, and refuses a client
/// with an earlier, expired certificate.
TEST(Age, AServerTakesUpRenewedCertificates) {
  const RunFolder folder;
  Authority authority(true);
  write_secrets(authority.issue_secrets(std::chrono::hours(25)), folder.path());
  const Secrets first = read_secrets(folder.path(), true);
  ControlServer server("127.0.0.1:0", first, 1, [](std::uint32_t, const AgentMessage*) {});
  {
    const SaidOnStderr said;
    ASSERT_FALSE(can_connect(server.address(), first, std::chrono::seconds(1)));
  }
  ASSERT_TRUE(renew_secrets(authority.issue_secrets(), folder.path()));
  const Secrets second = newest(first);
  ASSERT_NE(second.key, first.key);
  EXPECT_TRUE(can_connect(server.address(), second, std::chrono::seconds(10)));
  const SaidOnStderr said;
  EXPECT_FALSE(can_connect(server.address(), make_secrets(true), std::chrono::seconds(1)))
      << "of another run";
}

/// Whether the other end closes, long before a server of gRPC's own would.
bool is_closed_soon(int connection) {
  const timeval patience{30, 0};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  char bytes[256];
  ssize_t got = 0;
  do {
    got = recv(connection, bytes, sizeof bytes, 0);
  } while (got > 0);
  return got == 0 || errno == ECONNRESET;
}

TEST(Door, WhoShowsNoCertificateGivesTheDescriptorBack) {
  for (const bool encrypted : {true, false}) {
    const Secrets secrets = make_secrets(encrypted);
    const SaidOnStderr said;
    ControlServer server("127.0.0.1:0", secrets, 1, [](std::uint32_t, const AgentMessage*) {});
    const int stranger = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const std::string address = server.address();
    place.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    ASSERT_EQ(connect(stranger, reinterpret_cast<const sockaddr*>(&place), sizeof place), 0);
    EXPECT_TRUE(is_closed_soon(stranger)) << encrypted;
    close(stranger);
  }
}

TEST(Door, WhoOpensAStreamAndSaysNothingIsShownOut) {
  const Secrets secrets = make_secrets(false);
  const SaidOnStderr said;
  ControlServer server("127.0.0.1:0", secrets, 1, [](std::uint32_t, const AgentMessage*) {});
  const auto stub = Control::NewStub(open_channel(server.address(), secrets, 1 << 20));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  const auto stream = stub->Session(&context);
  ControllerMessage message;
  EXPECT_FALSE(stream->Read(&message));
  EXPECT_NE(stream->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

/// Passes bytes on between loopback and a server there, until it is told to pass nothing on.
class Relay {
 public:
  explicit Relay(const std::string& server) : server_port_(port_of(server)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in place = at(0);
    socklen_t size = sizeof place;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&place), size), 0);
    EXPECT_EQ(::listen(listener_, 4), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&place), &size);
    address_ = "127.0.0.1:" + std::to_string(ntohs(place.sin_port));
    thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
  }
  ~Relay() {
    thread_.request_stop();
    thread_.join();
    for (const int each : {listener_, client_, server_}) {
      if (each >= 0) close(each);
    }
  }
  const std::string& address() const { return address_; }
  void mute() { muted_ = true; }

 private:
  static int port_of(const std::string& address) {
    return std::stoi(address.substr(address.rfind(':') + 1));
  }
  static sockaddr_in at(int port) {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(static_cast<std::uint16_t>(port));
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return place;
  }
  void work(const std::stop_token& stop) {
    client_ = accept(listener_, nullptr, nullptr);
    server_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in place = at(server_port_);
    if (connect(server_, reinterpret_cast<const sockaddr*>(&place), sizeof place) != 0) return;
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (muted_) continue;
      pass(client_, server_);
      pass(server_, client_);
    }
  }
  static void pass(int from, int to) {
    char bytes[4096];
    const ssize_t got = recv(from, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got > 0) send(to, bytes, static_cast<std::size_t>(got), MSG_NOSIGNAL);
  }

  const int server_port_;
  int listener_ = -1, client_ = -1, server_ = -1;
  std::string address_;
  std::atomic<bool> muted_ = false;
  std::jthread thread_;
};

/// Without pings whoever only listens would wait for as long as TCP tries again, or for ever.
TEST(Silence, AWayThatPassesNothingOnIsGivenUp) {
  const Secrets secrets = make_secrets(true);
  std::atomic<bool> heard = false;
  ControlServer server("127.0.0.1:0", secrets, 1,
                       [&](std::uint32_t, const AgentMessage* said) { heard = said != nullptr; });
  Relay relay(server.address());
  ControlClient client(relay.address(), secrets, hello(secrets.token));
  for (int i = 0; i < 1000 && !heard; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_TRUE(heard);
  relay.mute();
  auto end = std::async(std::launch::async, [&client] { return client.read(); });
  ASSERT_EQ(end.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_FALSE(end.get().has_value());
}

}  // namespace
}  // namespace orrery::live
