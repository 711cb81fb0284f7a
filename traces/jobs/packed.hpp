// Texts and times in few bytes, for logs of ten million jobs: an id of up to 15 bytes takes 16
// bytes (std::string: 32), a time in seconds takes 5. Both types convert to their values. Plain
// values.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

namespace orrery {

/// Text that stores up to 15 bytes in place and longer texts on the heap. Owns its text, which is
/// cut off at 4 GiB.
class PackedText {
 public:
  PackedText() = default;
  PackedText(std::string_view text) { assign_text(text); }
  PackedText(const std::string& text) : PackedText(std::string_view(text)) {}
  PackedText(const char* text) : PackedText(std::string_view(text)) {}
  PackedText(const PackedText& other) : PackedText(other.view()) {}
  PackedText(PackedText&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  PackedText& operator=(PackedText other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~PackedText() {
    if (is_far()) delete[] far();
  }

  std::string_view view() const {
    if (!is_far()) return {bytes_.data(), static_cast<std::size_t>(bytes_.back())};
    std::uint32_t size = 0;
    std::memcpy(&size, bytes_.data() + sizeof(char*), sizeof size);
    return {far(), size};
  }
  operator std::string_view() const { return view(); }
  std::string str() const { return std::string(view()); }
  bool empty() const { return view().empty(); }

  friend bool operator==(const PackedText& a, const PackedText& b) { return a.view() == b.view(); }
  friend bool operator==(const PackedText& a, const char* b) { return a.view() == b; }
  friend bool operator==(const PackedText& a, const std::string& b) { return a.view() == b; }
  friend bool operator<(const PackedText& a, const PackedText& b) { return a.view() < b.view(); }
  friend std::string operator+(const PackedText& a, std::string_view b) {
    return a.str().append(b);
  }
  friend std::string operator+(std::string_view a, const PackedText& b) {
    return std::string(a).append(b.view());
  }
  friend std::ostream& operator<<(std::ostream& out, const PackedText& text) {
    return out << text.view();
  }

 private:
  static constexpr char kFar = 16;

  bool is_far() const { return bytes_.back() == kFar; }
  char* far() const {
    char* at = nullptr;
    std::memcpy(&at, bytes_.data(), sizeof at);
    return at;
  }
  void assign_text(std::string_view text) {
    if (text.size() < bytes_.size()) {
      std::copy(text.begin(), text.end(), bytes_.begin());
      bytes_.back() = static_cast<char>(text.size());
      return;
    }
    const auto size = static_cast<std::uint32_t>(std::min<std::size_t>(text.size(), ~0u));
    char* const at = new char[size];
    std::copy_n(text.begin(), size, at);
    std::memcpy(bytes_.data(), &at, sizeof at);
    std::memcpy(bytes_.data() + sizeof at, &size, sizeof size);
    bytes_.back() = kFar;
  }

  std::array<char, 16> bytes_{};  ///< text and length; or address, length and kFar
};

/// Time in whole seconds, up to 17,000 years in both directions; larger values are clamped.
class PackedSeconds {
 public:
  PackedSeconds(std::int64_t seconds = 0) {
    const auto kept = static_cast<std::uint64_t>(std::clamp(seconds, -kMost, kMost) + kMost);
    low_ = static_cast<std::uint32_t>(kept);
    high_ = static_cast<std::uint8_t>(kept >> 32);
  }
  operator std::int64_t() const {
    return static_cast<std::int64_t>(std::uint64_t{high_} << 32 | low_) - kMost;
  }
  PackedSeconds& operator+=(std::int64_t by) { return *this = std::int64_t{*this} + by; }
  PackedSeconds& operator-=(std::int64_t by) { return *this = std::int64_t{*this} - by; }

 private:
  static constexpr std::int64_t kMost = (std::int64_t{1} << 39) - 1;

  // Not aligned, so that several times beside each other leave no gaps.
  std::uint32_t low_ __attribute__((packed)) = 0;
  std::uint8_t high_ = 0;
};
static_assert(sizeof(PackedText) == 16 && sizeof(PackedSeconds) == 5);

}  // namespace orrery
