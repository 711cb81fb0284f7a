// Conversion of plain values to and from the saved bytes of a policy (Archive in policy.hpp). The
// bytes are in the order of the calls and have no padding, so that equal states give equal bytes.
// Structs with padding must be written field by field. Integers have the byte order of the machine.
#pragma once

#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/error.hpp"

namespace orrery {

/// Type whose values are copied byte by byte.
template <class T>
concept PlainValue = std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>;
/// True for element types whose vectors are copied as a whole; all other elements one by one.
template <class T>
inline constexpr bool kInOnePiece = PlainValue<T> && !std::is_same_v<T, bool>;

/// Writer that appends values to a string. Not thread-safe. For example, ByteWriter write(archive)
/// and then write(std::uint64_t{3}), write(std::vector<double>{1.0}) append 8 bytes, a length of 8
/// bytes and 8 bytes.
class ByteWriter {
 public:
  /// Constructs a writer; `bytes` must outlive the writer.
  explicit ByteWriter(std::string& bytes) : bytes_(bytes) {}

  /// Appends the bytes of a value.
  template <PlainValue T>
  void operator()(const T& value) {
    put_bytes(&value, sizeof(T));
  }
  /// Appends several values at once, which is faster than one call for each value.
  template <PlainValue... Ts>
    requires(sizeof...(Ts) > 1)
  void operator()(const Ts&... values) {
    std::array<char, (sizeof(Ts) + ...)> piece;
    char* at = piece.data();
    ((std::memcpy(at, &values, sizeof(Ts)), at += sizeof(Ts)), ...);
    put_bytes(piece.data(), piece.size());
  }
  /// Appends the number of elements and the elements.
  template <class T>
  void operator()(const std::vector<T>& values) {
    (*this)(static_cast<std::uint64_t>(values.size()));
    if constexpr (kInOnePiece<T>) {
      put_bytes(values.data(), values.size() * sizeof(T));
    } else {
      for (const T& value : values) (*this)(value);
    }
  }
  /// Appends the number of characters and the characters.
  void operator()(const std::string& text) {
    (*this)(static_cast<std::uint64_t>(text.size()));
    bytes_ += text;
  }

 private:
  void put_bytes(const void* data, std::size_t size) {
    bytes_.append(static_cast<const char*>(data), size);
  }

  std::string& bytes_;
};

/// Reader of values in the order in which ByteWriter wrote them. Each call stores a value in its
/// argument and throws an internal Error if too few bytes remain; the reader is then of no further
/// use. A vector or string is replaced and gets its saved size. Not thread-safe.
class ByteReader {
 public:
  /// Constructs a reader; the characters of `bytes` must outlive the reader.
  explicit ByteReader(std::string_view bytes) : left_(bytes) {}

  template <PlainValue... Ts>
    requires(sizeof...(Ts) > 1)
  void operator()(Ts&... values) {
    constexpr std::size_t kBytes = (sizeof(Ts) + ...);
    ensure(left_.size() >= kBytes, "a saved policy state is complete");
    const char* at = left_.data();
    ((std::memcpy(&values, at, sizeof(Ts)), at += sizeof(Ts)), ...);
    left_.remove_prefix(kBytes);
  }
  template <PlainValue T>
  void operator()(T& value) {
    ensure(left_.size() >= sizeof(T), "a saved policy state is complete");
    std::memcpy(&value, left_.data(), sizeof(T));
    left_.remove_prefix(sizeof(T));
  }
  template <class T>
  void operator()(std::vector<T>& values) {
    values.resize(size());
    if constexpr (kInOnePiece<T>) {
      const std::size_t bytes = values.size() * sizeof(T);
      ensure(left_.size() >= bytes, "a saved policy state is complete");
      if (bytes > 0) std::memcpy(values.data(), left_.data(), bytes);
      left_.remove_prefix(bytes);
    } else {
      for (T& value : values) (*this)(value);
    }
  }
  void operator()(std::string& text) {
    const std::size_t length = size();
    text.assign(left_.substr(0, length));
    left_.remove_prefix(length);
  }
  /// Reads the number of elements that precedes the elements of a container. Throws an internal
  /// Error if the number exceeds the number of remaining bytes.
  std::size_t size() {
    std::uint64_t count = 0;
    (*this)(count);
    ensure(count <= left_.size(), "a saved policy state counts only what it holds");
    return count;
  }
  /// Returns true if no bytes remain.
  bool is_at_end() const { return left_.empty(); }
  /// Returns the remaining bytes, which stay unread.
  std::string_view rest() const { return left_; }

 private:
  std::string_view left_;
};

}  // namespace orrery
