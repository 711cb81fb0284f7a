#include "live/run/operator/metrics_socket.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/files/socket_address.hpp"
#include "live/run/files/run_folder.hpp"

namespace orrery::live {
namespace {

int connect_to(const std::string& path) {
  const int own = socket(AF_UNIX, SOCK_STREAM, 0);
  const sockaddr_un place = socket_address(path);
  EXPECT_EQ(connect(own, reinterpret_cast<const sockaddr*>(&place), sizeof place), 0);
  return own;
}

std::string ask(const std::string& path, const std::string& request) {
  const int own = connect_to(path);
  EXPECT_EQ(send(own, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
  std::string answer;
  char bytes[4096];
  for (ssize_t got = 0; (got = recv(own, bytes, sizeof bytes, 0)) > 0;) {
    answer.append(bytes, static_cast<std::size_t>(got));
  }
  close(own);
  return answer;
}

TEST(MetricsSocket, AnswersWithTheNewestTextAndOnlyItsUserMayEnter) {
  const RunFolder folder;
  const std::string path = folder.path() + "/metrics";
  MetricsSocket socket(path);
  socket.set_text("orrery_steps_total 1\n");
  socket.set_text("orrery_steps_total 2\n");
  const std::string answer = ask(path, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(answer.ends_with("\r\n\r\norrery_steps_total 2\n")) << answer;
  EXPECT_TRUE(ask(path, "POST / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0600u);
}

/// Client that sends the first bytes of a request, one every 0.2 s, until it is refused or ends.
class Dribbler {
 public:
  explicit Dribbler(const std::string& path) : socket_(connect_to(path)) {
    send(socket_, "G", 1, MSG_NOSIGNAL);
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested() && send(socket_, "E", 1, MSG_NOSIGNAL) == 1) {
        ++sent_;
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
      }
    });
  }
  ~Dribbler() {
    thread_ = {};
    close(socket_);
  }
  Dribbler(const Dribbler&) = delete;
  Dribbler& operator=(const Dribbler&) = delete;

  /// Blocks until the server has closed the connection; returns true if it sent nothing before.
  bool is_turned_away() const {
    char byte = 0;
    return recv(socket_, &byte, 1, 0) <= 0;
  }
  int sent() const { return sent_; }

 private:
  int socket_;
  std::atomic<int> sent_ = 0;
  std::jthread thread_;
};

TEST(MetricsSocket, ASlowClientDelaysNobody) {
  const RunFolder folder;
  const std::string path = folder.path() + "/metrics";
  MetricsSocket socket(path);
  socket.set_text(std::string(1 << 20, 'x'));
  const int silent = connect_to(path);
  const Dribbler slow(path);
  const int deaf = connect_to(path);  // asks for a megabyte and reads none of it
  EXPECT_EQ(send(deaf, "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(ask(path, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 OK"));
  }
  EXPECT_LE(slow.sent(), 50) << "the answers waited for the slow client";
  EXPECT_TRUE(slow.is_turned_away()) << "though it never stopped sending";
  close(silent);
  close(deaf);
}

TEST(MetricsSocket, MoreSilentClientsThanItServesAreTurnedAwayInTurn) {
  const RunFolder folder;
  const std::string path = folder.path() + "/metrics";
  MetricsSocket socket(path);
  std::vector<int> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(connect_to(path));
  EXPECT_TRUE(ask(path, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 OK"));
  for (const int each : silent) close(each);
}

TEST(MetricsSocket, ItsEndWaitsForNoClient) {
  const RunFolder folder;
  const std::string path = folder.path() + "/metrics";
  auto socket = std::make_unique<MetricsSocket>(path);
  const Dribbler slow(path);
  EXPECT_TRUE(ask(path, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 OK"));
  socket.reset();
  EXPECT_LE(slow.sent(), 50) << "the end waited for the slow client";
  EXPECT_TRUE(slow.is_turned_away());
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST(MetricsSocket, TakesTheplaceOfADeadOneAndOfNothingElse) {
  const RunFolder folder;
  const std::string path = folder.path() + "/metrics";
  {
    const int dead = socket(AF_UNIX, SOCK_STREAM, 0);
    const sockaddr_un place = socket_address(path);
    ASSERT_EQ(bind(dead, reinterpret_cast<const sockaddr*>(&place), sizeof place), 0);
    close(dead);
  }
  {
    const MetricsSocket first(path);
    EXPECT_THROW(MetricsSocket{path}, Error) << "a living one keeps its place";
  }
  std::ofstream(path) << "the user's";
  EXPECT_THROW(MetricsSocket{path}, Error);
  EXPECT_THROW(MetricsSocket{std::string(200, 'x')}, Error);
}

}  // namespace
}  // namespace orrery::live
