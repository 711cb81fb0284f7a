#include "live/group/frames.hpp"

#include <cstdint>

namespace orrery::live {
namespace {

constexpr std::size_t kLengthBytes = 4;

void append_length(std::string& out, std::size_t length) {
  for (std::size_t at = 0; at < kLengthBytes; ++at) {
    out.push_back(static_cast<char>(length >> (8 * at) & 0xFF));
  }
}

std::size_t length_at(const std::string& bytes, std::size_t from) {
  std::size_t length = 0;
  for (std::size_t at = 0; at < kLengthBytes; ++at) {
    length |= static_cast<std::size_t>(static_cast<unsigned char>(bytes[from + at])) << (8 * at);
  }
  return length;
}

}  // namespace

std::string encode_frame(const Fields& fields) {
  std::size_t total = 0;
  for (const std::string& field : fields) total += kLengthBytes + field.size();
  std::string out;
  out.reserve(total + kLengthBytes);
  append_length(out, total);
  for (const std::string& field : fields) {
    append_length(out, field.size());
    out += field;
  }
  return out;
}

std::optional<Fields> FrameReader::next_frame() {
  if (is_torn_ || buffer_.size() < kLengthBytes) return std::nullopt;
  const std::size_t end = kLengthBytes + length_at(buffer_, 0);
  is_torn_ = end > kMaxFrameBytes;
  if (is_torn_ || buffer_.size() < end) return std::nullopt;
  Fields fields;
  for (std::size_t at = kLengthBytes; at < end;) {
    const std::size_t from = at + kLengthBytes;
    is_torn_ = from > end || length_at(buffer_, at) > end - from;
    if (is_torn_) return std::nullopt;
    fields.push_back(buffer_.substr(from, length_at(buffer_, at)));
    at = from + fields.back().size();
  }
  buffer_.erase(0, end);
  return fields;
}

}  // namespace orrery::live
