// Unix socket for metrics scrapers.
#pragma once

#include <mutex>
#include <string>
#include <thread>

namespace orrery::live {

/// Server that answers HTTP GET requests on a Unix socket with the newest metrics text. Only this
/// user may connect: access to the socket grants access to the metrics, so that no other part of
/// HTTP is supported. One connection at a time, each for at most a second. Owns its thread;
/// thread-safe.
class MetricsSocket {
 public:
  /// Starts the server at `path`. Replaces the socket of a dead run. Throws an environment Error if
  /// any other file or a live socket exists at `path`, or if the server cannot listen there.
  explicit MetricsSocket(std::string path);
  ~MetricsSocket();
  MetricsSocket(const MetricsSocket&) = delete;
  MetricsSocket& operator=(const MetricsSocket&) = delete;

  /// Replaces the text that the server returns.
  void set_text(std::string text);

 private:
  /// Accepts connections until `stop` is requested.
  void serve_connections(const std::stop_token& stop);
  /// Answers one connection.
  void answer_connection(int connection);

  const std::string path_;
  int socket_ = -1;
  std::mutex mutex_;  // Guards the text.
  std::string text_;
  std::jthread server_;
};

}  // namespace orrery::live
