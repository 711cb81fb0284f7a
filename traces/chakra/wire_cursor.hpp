// Position in protobuf's wire format (varints, fixed words, length-delimited blocks), with every
// step checked against the end. For readers that skip most of a message. Header only; throws
// WireFault, which the reader converts to an error with its place.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace orrery {

/// Exception: the error, and the byte at which it was detected.
struct WireFault {
  const char* at;
  const char* what;
};

enum class WireType : std::uint8_t { varint = 0, fixed64 = 1, block = 2, fixed32 = 5 };

/// Reader of fields from bytes.
class WireCursor {
 public:
  explicit WireCursor(std::string_view bytes) : at_(bytes.data()), end_(at_ + bytes.size()) {}

  bool is_done() const { return at_ == end_; }
  const char* at() const { return at_; }
  /// Returns the number of remaining bytes.
  std::size_t bytes_left() const { return static_cast<std::size_t>(end_ - at_); }

  std::uint64_t varint() {
    if (at_ != end_ && static_cast<signed char>(*at_) >= 0) {
      return static_cast<unsigned char>(*at_++);
    }
    return long_varint();
  }
  template <class Word>
  Word fixed_word() {
    static_assert(std::endian::native == std::endian::little);
    if (bytes_left() < sizeof(Word)) throw WireFault{at_, "a value is cut short"};
    Word word;
    std::memcpy(&word, at_, sizeof word);
    at_ += sizeof word;
    return word;
  }
  std::string_view read_block() {
    const std::uint64_t size = varint();
    if (size > bytes_left()) throw WireFault{at_, "a value is longer than what holds it"};
    const std::string_view bytes(at_, size);
    at_ += size;
    return bytes;
  }
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
  std::uint64_t long_varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_ == end_) throw WireFault{at_, "a number is cut short"};
      const auto byte = static_cast<unsigned char>(*at_++);
      value |= std::uint64_t{byte & 127u} << shift;
      if (byte < 128) return value;
    }
    throw WireFault{at_, "a number has more than 64 bits"};
  }

  const char* at_;
  const char* end_;
};

}  // namespace orrery
