// A word that many things have in common (a user, a queue): kept once in a process and never
// forgotten, eight bytes wherever it is used. Plain value, thread-safe.
#pragma once

#include <ostream>
#include <string>
#include <string_view>

namespace orrery {

class Label {
 public:
  Label() = default;
  Label(std::string_view text) : text_(text.empty() ? nullptr : &kept(text)) {}
  Label(const std::string& text) : Label(std::string_view(text)) {}
  Label(const char* text) : Label(std::string_view(text)) {}

  const std::string& str() const { return text_ == nullptr ? nothing() : *text_; }
  operator const std::string&() const { return str(); }
  bool empty() const { return text_ == nullptr; }

  friend bool operator==(Label a, Label b) { return a.text_ == b.text_; }
  /// By its text.
  friend bool operator<(Label a, Label b) { return a.text_ != b.text_ && a.str() < b.str(); }
  friend std::ostream& operator<<(std::ostream& out, Label label) { return out << label.str(); }

 private:
  static const std::string& kept(std::string_view text);
  static const std::string& nothing();

  const std::string* text_ = nullptr;  ///< null: empty
};

}  // namespace orrery
