// Plain values into and out of a policy's saved bytes (policy.hpp, Archive): fixed order, no
// padding, so that equal states give equal bytes. For types without padding only.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/error.hpp"

namespace orrery {

class ByteWriter {
 public:
  explicit ByteWriter(std::string& bytes) : bytes_(bytes) {}

  template <class T>
    requires std::is_trivially_copyable_v<T> && (!std::is_pointer_v<T>)
  void operator()(const T& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  template <class T>
  void operator()(const std::vector<T>& values) {
    (*this)(static_cast<std::uint64_t>(values.size()));
    for (const T& value : values) (*this)(value);
  }
  void operator()(const std::string& text) {
    (*this)(static_cast<std::uint64_t>(text.size()));
    bytes_ += text;
  }

 private:
  std::string& bytes_;
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
    for (T& value : values) (*this)(value);
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
