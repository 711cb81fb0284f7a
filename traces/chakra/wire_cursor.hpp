// Reader of protobuf's wire format (varints, fixed words, length-delimited blocks), which checks
// every step against the end. For readers that skip most of a message. Header only; throws
// WireFault, which the caller converts to an error with its place. One thread per cursor.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace orrery {

/// Exception of WireCursor: the byte at which the error was detected, and the error.
struct WireFault {
  const char* at;
  const char* what;
};

/// Wire types of protobuf, with their numbers.
enum class WireType : std::uint8_t { varint = 0, fixed64 = 1, block = 2, fixed32 = 5 };

/// Position in the bytes of a message, which must outlive it. All readers throw a WireFault if the
/// bytes end too early.
class WireCursor {
 public:
  explicit WireCursor(std::string_view bytes) : at_(bytes.data()), end_(at_ + bytes.size()) {}

  /// Returns true if no bytes remain.
  bool is_done() const { return at_ == end_; }
  /// Returns the next byte, for the place of an error.
  const char* at() const { return at_; }
  /// Returns the number of remaining bytes.
  std::size_t bytes_left() const { return static_cast<std::size_t>(end_ - at_); }

  /// Reads a varint. Throws a WireFault for more than 64 bits.
  std::uint64_t varint() {
    if (at_ != end_ && static_cast<signed char>(*at_) >= 0) {
      return static_cast<unsigned char>(*at_++);
    }
    return long_varint();
  }
  /// Reads a word of fixed size, little-endian.
  template <class Word>
  Word fixed_word() {
    static_assert(std::endian::native == std::endian::little);
    if (bytes_left() < sizeof(Word)) throw WireFault{at_, "a value is cut short"};
    Word word;
    std::memcpy(&word, at_, sizeof word);
    at_ += sizeof word;
    return word;
  }
  /// Reads a block with its length; the result points into the message.
  std::string_view read_block() {
    const std::uint64_t size = varint();
    if (size > bytes_left()) throw WireFault{at_, "a value is longer than its message"};
    const std::string_view bytes(at_, size);
    at_ += size;
    return bytes;
  }
  /// Skips the value of a field of wire type `type`. Throws a WireFault for an unknown type.
  void skip_field(std::uint32_t type) {
    switch (static_cast<WireType>(type)) {
      case WireType::varint: varint(); return;
      case WireType::fixed64: fixed_word<std::uint64_t>(); return;
      case WireType::block: read_block(); return;
      case WireType::fixed32: fixed_word<std::uint32_t>(); return;
    }
    throw WireFault{at_, "no such wire type"};
  }

 private:
  /// Reads a varint of several bytes: seven bits each, of which the tenth has one left.
  std::uint64_t long_varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_ == end_) throw WireFault{at_, "a number is cut short"};
      const auto byte = static_cast<unsigned char>(*at_++);
      if (shift == 63 && byte > 1) break;
      value |= std::uint64_t{byte & 127u} << shift;
      if (byte < 128) return value;
    }
    throw WireFault{at_, "a number has more than 64 bits"};
  }

  const char* at_;
  const char* end_;
};

}  // namespace orrery
