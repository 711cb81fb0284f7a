// Text that many objects share (a user, a queue): stored once in a process and never freed, so that
// each use takes four bytes. Plain value, thread-safe.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

namespace orrery {

/// Interned text; a default Label is the empty text. References returned by str() stay valid until
/// the process ends. For example, ten million jobs of one user store the user's name once.
class Label {
 public:
  Label() = default;
  Label(std::string_view text) : number_(text.empty() ? 0 : keep_text(text)) {}
  Label(const std::string& text) : Label(std::string_view(text)) {}
  Label(const char* text) : Label(std::string_view(text)) {}

  const std::string& str() const;
  operator const std::string&() const { return str(); }
  bool empty() const { return number_ == 0; }

  friend bool operator==(Label a, Label b) { return a.number_ == b.number_; }
  /// Compares by text.
  friend bool operator<(Label a, Label b) { return a.number_ != b.number_ && a.str() < b.str(); }
  friend std::ostream& operator<<(std::ostream& out, Label label) { return out << label.str(); }

 private:
  static std::uint32_t keep_text(std::string_view text);

  std::uint32_t number_ = 0;  ///< 0: empty
};

}  // namespace orrery
