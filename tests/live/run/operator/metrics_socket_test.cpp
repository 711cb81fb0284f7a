#include "live/run/operator/metrics_socket.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "live/run/files/run_folder.hpp"

namespace orrery::live {
namespace {

int connect_to(const std::string& path) {
  const int own = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un place{};
  place.sun_family = AF_UNIX;
  path.copy(place.sun_path, path.size());
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

TEST(MetricsSocket, WhoSaysNothingHoldsTheOthersUpForASecondAtMost) {
  const RunFolder folder;
  const std::string path = folder.path() + "/metrics";
  MetricsSocket socket(path);
  const int silent = connect_to(path);
  EXPECT_TRUE(ask(path, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 OK"));
  close(silent);
}

TEST(MetricsSocket, TakesTheplaceOfADeadOneAndOfNothingElse) {
  const RunFolder folder;
  const std::string path = folder.path() + "/metrics";
  {
    const int dead = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un place{};
    place.sun_family = AF_UNIX;
    path.copy(place.sun_path, path.size());
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
