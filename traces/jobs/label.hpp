// A word that many things have in common (a user, a queue): kept once in a process and never
// forgotten, four bytes wherever it is used. Plain value, thread-safe.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

namespace orrery {

class Label {
 public:
  Label() = default;
  Label(std::string_view text) : number_(text.empty() ? 0 : kept(text)) {}
  Label(const std::string& text) : Label(std::string_view(text)) {}
  Label(const char* text) : Label(std::string_view(text)) {}

  const std::string& str() const;
  operator const std::string&() const { return str(); }
  bool empty() const { return number_ == 0; }

  friend bool operator==(Label a, Label b) { return a.number_ == b.number_; }
  /// By its text.
  friend bool operator<(Label a, Label b) { return a.number_ != b.number_ && a.str() < b.str(); }
  friend std::ostream& operator<<(std::ostream& out, Label label) { return out << label.str(); }

 private:
  static std::uint32_t kept(std::string_view text);

  std::uint32_t number_ = 0;  ///< 0: empty
};

}  // namespace orrery
