// Plain values into and out of a policy's saved bytes (policy.hpp, Archive): fixed order, no
// padding, so that equal states give equal bytes. For types without padding only.
#pragma once

#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/error.hpp"

namespace orrery {

/// Vectors of these are their bytes.
template <class T>
inline constexpr bool kInOnePiece = std::is_trivially_copyable_v<T> && !std::is_same_v<T, bool>;

/// All is in the archive once the writer is gone: states of many small fields are gathered before.
class ByteWriter {
 public:
  explicit ByteWriter(std::string& bytes) : bytes_(bytes) {}
  ~ByteWriter() { bytes_.append(gathered_.data(), count_); }
  ByteWriter(const ByteWriter&) = delete;
  ByteWriter& operator=(const ByteWriter&) = delete;

  template <class T>
    requires std::is_trivially_copyable_v<T> && (!std::is_pointer_v<T>) &&
             (!std::is_same_v<T, std::string_view>)
  void operator()(const T& value) {
    if constexpr (sizeof(T) > sizeof(gathered_)) return put(&value, sizeof(T));
    if (sizeof(T) > gathered_.size() - count_) put(nullptr, 0);
    std::memcpy(gathered_.data() + count_, &value, sizeof(T));
    count_ += sizeof(T);
  }
  /// As a vector of characters.
  void operator()(std::string_view text) {
    (*this)(static_cast<std::uint64_t>(text.size()));
    put(text.data(), text.size());
  }
  template <class T>
  void operator()(const std::vector<T>& values) {
    (*this)(static_cast<std::uint64_t>(values.size()));
    if constexpr (kInOnePiece<T>) {
      put(values.data(), values.size() * sizeof(T));
    } else {
      for (const T& value : values) (*this)(value);
    }
  }
  void operator()(const std::string& text) {
    (*this)(static_cast<std::uint64_t>(text.size()));
    bytes_ += text;
  }

 private:
  void put(const void* data, std::size_t size) {
    bytes_.append(gathered_.data(), count_);
    count_ = 0;
    if (size > 0) bytes_.append(static_cast<const char*>(data), size);
  }

  std::string& bytes_;
  std::array<char, 1024> gathered_;
  std::size_t count_ = 0;
};

/// Throws an internal Error when the bytes end too early.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : left_(bytes) {}

  template <class T>
    requires std::is_trivially_copyable_v<T> && (!std::is_pointer_v<T>)
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
  /// A length written before the items it counts; never more than the bytes that are left.
  std::size_t size() {
    std::uint64_t count = 0;
    (*this)(count);
    ensure(count <= left_.size(), "a saved policy state counts only what it holds");
    return count;
  }
  bool at_end() const { return left_.empty(); }

 private:
  std::string_view left_;
};

}  // namespace orrery
