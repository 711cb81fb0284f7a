// Messages between the ranks of a user's program and `orrery run`: lists of byte strings over a
// stream socket. Used by both sides (live/torch, live/programs). A frame is its length in bytes (4
// bytes, little endian), then every field with its own length. Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace orrery::live {

using Fields = std::vector<std::string>;

/// Limit of one frame. Larger frames end the connection.
inline constexpr std::size_t kMaxFrameBytes = std::size_t{64} << 20;

/// Returns the bytes of one frame.
std::string encode_frame(const Fields& fields);

/// Frames of a stream whose bytes arrive in pieces.
class FrameReader {
 public:
  void add_bytes(const char* bytes, std::size_t count) { buffer_.append(bytes, count); }
  /// Returns the next complete frame; nothing if more bytes are needed or is_torn().
  std::optional<Fields> next_frame();
  /// Returns true if the bytes are no frames: a length is above the limit or outside its frame.
  bool is_torn() const { return is_torn_; }

 private:
  std::string buffer_;
  bool is_torn_ = false;
};

}  // namespace orrery::live
