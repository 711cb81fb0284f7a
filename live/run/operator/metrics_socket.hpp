// Unix socket for metrics scrapers.
#pragma once

#include <mutex>
#include <string>
#include <thread>

namespace orrery::live {

/// Server that answers HTTP GET requests on a Unix socket with the newest metrics text. Only this
/// user may connect: access to the socket grants access to the metrics, so that no other part of
/// HTTP is supported. Serves up to 16 connections side by side, each for at most a second in all,
/// so that a slow scraper delays no other one. Owns its thread; thread-safe.
class MetricsSocket {
 public:
  /// Starts the server at `path`, with an empty text. Replaces the socket of a dead run. Throws an
  /// environment Error if `path` has not 1 to 107 bytes, if any other file or a live socket exists
  /// there, or if the server cannot listen there.
  explicit MetricsSocket(std::string path);
  /// Closes all connections without waiting for a scraper, and removes the socket.
  ~MetricsSocket();
  MetricsSocket(const MetricsSocket&) = delete;
  MetricsSocket& operator=(const MetricsSocket&) = delete;

  /// Replaces the text that the server returns, from the next event of a connection on; does not
  /// block for a scraper.
  void set_text(std::string text);

 private:
  /// Serves connections until the destructor writes to `wake_`.
  void serve_connections();
  /// Returns the newest text.
  std::string text();

  const std::string path_;
  int socket_ = -1;
  int wake_ = -1;     // Event descriptor that ends the thread.
  std::mutex mutex_;  // Guards the text.
  std::string text_;
  std::jthread server_;
};

}  // namespace orrery::live
