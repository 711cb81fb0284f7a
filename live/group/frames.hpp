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

/// Limit of one frame in bytes, all lengths included. The reader of a larger frame is_torn().
inline constexpr std::size_t kMaxFrameBytes = std::size_t{64} << 20;

/// Returns the bytes of one frame. kMaxFrameBytes is not checked.
std::string encode_frame(const Fields& fields);

/// Frames of a stream whose bytes arrive in pieces.
class FrameReader {
 public:
  /// Adds arrived bytes behind the earlier ones.
  void add_bytes(const char* bytes, std::size_t count) { buffer_.append(bytes, count); }
  /// Removes and returns the next complete frame, which may have no fields; nothing if more bytes
  /// are needed or is_torn().
  std::optional<Fields> next_frame();
  /// Returns true once next_frame() has found that the bytes are no frames: a length is above the
  /// limit or outside its frame. No frame follows.
  bool is_torn() const { return is_torn_; }

 private:
  std::string buffer_;
  bool is_torn_ = false;
};

}  // namespace orrery::live
