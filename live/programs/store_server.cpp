#include "live/programs/store_server.hpp"

#include <sys/socket.h>

#include <utility>

namespace orrery::live {
StoreServer::StoreServer(std::string path)
    : path_(std::move(path)), listener_(listening_socket(path_)) {}

void StoreServer::add_waiting(std::vector<pollfd>& waiting) const {
  waiting.push_back({listener_.number(), POLLIN, 0});
  for (const auto& [id, connection] : connections_) {
    waiting.push_back({connection.socket.number(), POLLIN, 0});
  }
}

void StoreServer::serve_requests(double now_s) {
  while (true) {
    const int accepted = accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC);
    if (accepted < 0) break;
    connections_.emplace(next_connection_++, Connection{Descriptor(accepted), {}});
  }
  std::vector<StoreAnswer> answers = store_.expire_requests(now_s);
  for (auto at = connections_.begin(); at != connections_.end();) {
    Connection& connection = at->second;
    const bool open = receive_bytes(connection.socket.number(), connection.reader);
    while (const auto request = connection.reader.next_frame()) {
      const auto more = store_.answer_request(at->first, *request, now_s);
      answers.insert(answers.end(), more.begin(), more.end());
    }
    if (open && !connection.reader.is_torn()) {
      ++at;
      continue;
    }
    store_.forget_connection(at->first);
    at = connections_.erase(at);
  }
  for (const StoreAnswer& answer : answers) {
    const auto to = connections_.find(answer.connection);
    if (to != connections_.end()) send_frame(to->second.socket.number(), answer.fields);
  }
}

}  // namespace orrery::live
