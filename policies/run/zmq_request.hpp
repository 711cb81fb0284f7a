// Requests to one server over ZeroMQ's wire protocol (ZMTP 3.0, socket type REQ, no security), as
// Batsim sends them to a scheduler. Needs no library. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace orrery {

/// Connection to a REP socket: each send_request() sends one message and returns the answer.
/// Methods throw an environment Error if the server is gone, gives no answer in time, or does not
/// speak the protocol. For example, ZmqRequest("127.0.0.1", 28000, 10 s).send_request("{}").
class ZmqRequest {
 public:
  /// Connects to the server and exchanges the greetings; repeats the attempt until `patience` has
  /// passed, because the server may still be starting. `patience` is also the longest silence
  /// before and within an answer.
  ZmqRequest(const std::string& host, std::uint16_t port, std::chrono::milliseconds patience);
  ~ZmqRequest();
  ZmqRequest(const ZmqRequest&) = delete;
  ZmqRequest& operator=(const ZmqRequest&) = delete;

  /// Sends `message`, blocks until the answer has come, and returns the answer.
  std::string send_request(const std::string& message);

 private:
  void connect_once(const std::string& host, std::uint16_t port);
  void send_all(const std::string& bytes);
  std::string receive_bytes(std::size_t count);
  /// Receives a frame and returns its flags.
  std::uint8_t receive_frame(std::string& body);

  const std::string server_;  ///< "host:port", for messages
  const std::chrono::milliseconds patience_;
  int socket_ = -1;
};

}  // namespace orrery
