#include "live/torch/program_store.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <c10/util/Exception.h>

#include "core/files/socket_address.hpp"

namespace orrery::live {
namespace {

std::string text_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

ProgramStore::ProgramStore(std::string path) : path_(std::move(path)) { connect_anew(); }

/// Connects, in place of an earlier connection.
void ProgramStore::connect_anew() {
  const sockaddr_un address = socket_address(path_);
  if (descriptor_ >= 0) close(descriptor_);
  reader_ = FrameReader();
  descriptor_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int status =
      connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  TORCH_CHECK(status == 0, "orrery: cannot reach the store at ", path_, ": ", std::strerror(errno));
}

ProgramStore::~ProgramStore() { close(descriptor_); }

void ProgramStore::abort_requests() {
  is_aborted_ = true;
  shutdown(descriptor_, SHUT_RDWR);
}

/// Returns true if `orrery run` has closed the connection: a successor may keep a store there.
bool ProgramStore::is_closed() const {
  char byte = 0;
  const ssize_t got = recv(descriptor_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return !is_aborted_ && (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR));
}

c10::intrusive_ptr<c10d::Store> ProgramStore::clone() {
  return c10::make_intrusive<ProgramStore>(path_);
}

std::string ProgramStore::send_request(const Fields& fields) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_closed()) connect_anew();
  const std::string frame = encode_frame(fields);
  for (std::size_t at = 0; at < frame.size();) {
    const ssize_t sent = send(descriptor_, frame.data() + at, frame.size() - at, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    TORCH_CHECK(sent > 0, "orrery: the store is gone");
    at += static_cast<std::size_t>(sent);
  }
  std::vector<char> buffer(1 << 16);
  while (true) {
    if (const auto answer = reader_.next_frame()) {
      if (answer->at(0) == "timeout") {
        C10_THROW_ERROR(DistStoreError, "wait timeout after " + answer->at(1) + " ms");
      }
      return answer->size() > 1 ? answer->at(1) : std::string();
    }
    const ssize_t got = recv(descriptor_, buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    TORCH_CHECK(got > 0, "orrery: the store is gone");
    reader_.add_bytes(buffer.data(), static_cast<std::size_t>(got));
  }
}

void ProgramStore::set(const std::string& key, const std::vector<uint8_t>& value) {
  send_request({"set", key, text_of(value)});
}

std::vector<uint8_t> ProgramStore::compareSet(const std::string& key,
                                              const std::vector<uint8_t>& current,
                                              const std::vector<uint8_t>& next) {
  const std::string value = send_request({"compare", key, text_of(current), text_of(next)});
  return {value.begin(), value.end()};
}

std::vector<uint8_t> ProgramStore::get(const std::string& key) {
  const std::string value = send_request({"get", std::to_string(timeout_.count()), key});
  return {value.begin(), value.end()};
}

int64_t ProgramStore::add(const std::string& key, int64_t value) {
  return std::stoll(send_request({"add", key, std::to_string(value)}));
}

bool ProgramStore::deleteKey(const std::string& key) {
  return send_request({"delete", key}) == "1";
}

bool ProgramStore::check(const std::vector<std::string>& keys) {
  Fields fields{"check"};
  fields.insert(fields.end(), keys.begin(), keys.end());
  return send_request(fields) == "1";
}

int64_t ProgramStore::getNumKeys() { return std::stoll(send_request({"count"})); }

void ProgramStore::wait(const std::vector<std::string>& keys,
                        const std::chrono::milliseconds& timeout) {
  Fields fields{"wait", std::to_string(timeout.count())};
  fields.insert(fields.end(), keys.begin(), keys.end());
  send_request(fields);
}

}  // namespace orrery::live
