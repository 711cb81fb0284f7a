// Answers a scraper on a Unix socket of this user's alone with the newest text: HTTP's GET and
// nothing else of HTTP, since who may enter the socket is who may see the run. One connection at a
// time, each for at most a second. A thread of its own; thread-safe.
#pragma once

#include <mutex>
#include <string>
#include <thread>

namespace orrery::live {

class MetricsSocket {
 public:
  /// A socket of a dead run in its place is replaced; anything else there is the user's.
  /// Throws an environment Error if it cannot listen there.
  explicit MetricsSocket(std::string path);
  ~MetricsSocket();
  MetricsSocket(const MetricsSocket&) = delete;
  MetricsSocket& operator=(const MetricsSocket&) = delete;

  void show(std::string text);

 private:
  void serve(const std::stop_token& stop);
  void answer(int connection);

  const std::string path_;
  int socket_ = -1;
  std::mutex mutex_;  // of the text
  std::string text_;
  std::jthread server_;
};

}  // namespace orrery::live
