#include "policies/recorder.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "policies/codec.hpp"

namespace orrery {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

/// The length prefix of length-delimited protobuf: a base-128 varint.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  bytes += static_cast<char>(value);
  return bytes;
}

bool is_special(const std::string& path) {
  std::error_code absent;
  const auto kind = std::filesystem::status(path, absent).type();
  return kind != std::filesystem::file_type::not_found &&
         kind != std::filesystem::file_type::regular;
}

}  // namespace

/// Written beside the log's place and put there when it is whole; removed if it never is. What is
/// there and is no regular file (/dev/null, a pipe) is written to as it stands, never replaced.
struct Recorder::File {
  explicit File(std::string log_path)
      : path(std::move(log_path)),
        partial(is_special(path) ? path : partial_log(path)),
        buffer(kBufferBytes) {
    stream = std::fopen(partial.c_str(), "wb");
    if (stream == nullptr) fail();
    std::setvbuf(stream, buffer.data(), _IOFBF, buffer.size());
  }
  ~File() {
    if (stream == nullptr) return;
    std::fclose(stream);
    if (partial != path) std::remove(partial.c_str());
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void append(const std::string& bytes) {
    if (std::fwrite(bytes.data(), 1, bytes.size(), stream) != bytes.size()) fail();
  }
  void put_in_place() {
    if (std::fflush(stream) != 0) fail();
    const bool closed = std::fclose(std::exchange(stream, nullptr)) == 0;
    if (!closed) fail();
    if (partial != path && std::rename(partial.c_str(), path.c_str()) != 0) fail();
  }
  [[noreturn]] void fail() const {
    throw Error(ErrorKind::environment,
                fmt::format("cannot write the log {}: {}", path, std::strerror(errno)));
  }

  std::string path, partial;
  std::vector<char> buffer;
  std::FILE* stream = nullptr;
};

std::string partial_log(const std::string& path) { return path + ".partial"; }

std::uint64_t state_digest(const Policy& policy) {
  Archive archive;
  policy.save(archive);
  return std::stoull(sha256_hex(archive).substr(0, 16), nullptr, 16);
}

Recorder::Recorder(Backend& inner, const Policy& policy, const LogHeader& header,
                   const std::string& path)
    : inner_(inner), policy_(policy) {
  if (!path.empty()) file_ = std::make_unique<File>(path);
  LogRecord record;
  *record.mutable_header() = header;
  record.mutable_header()->set_format(kLogFormat);
  record.mutable_header()->set_signals(inner.capabilities().signals);
  record.mutable_header()->set_actions(inner.capabilities().actions);
  log_hash_.update(write(record));
}

Recorder::~Recorder() = default;

std::optional<Observation> Recorder::next() {
  std::optional<Observation> seen = inner_.next();
  if (!seen) return seen;
  encode(*seen, *call_.mutable_call()->mutable_observation());
  events_ += seen->events.size();
  return seen;
}

void Recorder::apply(std::span<const Decision> decisions, bool at_rest) {
  CallRecord& call = *call_.mutable_call();
  call.clear_decisions();
  const Nanos now = call.observation().now();
  for (const Decision& decision : decisions) {
    encode(decision, *call.add_decisions());
    const std::string line = trace_line(decision, now);
    if (!line.empty()) trace_hash_.update(line + "\n");
  }
  call.set_state_digest(state_digest(policy_));
  call.set_at_rest(at_rest);
  log_hash_.update(write(call_));
  ++calls_;
  inner_.apply(decisions, at_rest);
}

std::string Recorder::write(const LogRecord& record) {
  std::string bytes = record.SerializeAsString();
  if (file_ != nullptr) {
    file_->append(varint(bytes.size()));
    file_->append(bytes);
  }
  return bytes;
}

void Recorder::finish() {
  LogRecord record;
  record.mutable_footer()->set_calls(calls_);
  record.mutable_footer()->set_decision_log_sha256(log_sha256());
  record.mutable_footer()->set_decision_trace_sha256(trace_sha256());
  write(record);
  if (file_ != nullptr) file_->put_in_place();
}

std::string Recorder::log_sha256() const { return log_hash_.hex(); }
std::string Recorder::trace_sha256() const { return trace_hash_.hex(); }

}  // namespace orrery
