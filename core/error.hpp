// The one error type. An Error says what is wrong, where (file:line:column with the line itself
// and a caret) and what was probably meant; its kind decides the exit code. Thrown, never
// returned; main() of each executable prints it and exits.
#pragma once

#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace orrery {

/// The value is the exit code that scripts rely on.
enum class ErrorKind {
  goal_missed = 1,  ///< it ran, but a stated goal or comparison failed
  usage = 2,        ///< the command line makes no sense
  bad_input = 3,    ///< a file does not say what it should
  environment = 4,  ///< this machine lacks something (GPU, library, port, memory)
  internal = 5,     ///< a defect of ours
};

/// Where in a text something stands. Lines and columns count from 1; columns count bytes.
struct SourcePlace {
  std::string file;
  int line = 1;
  int column = 1;
  std::string line_text;  ///< the line itself, without its end
};

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message);
  Error(SourcePlace place, std::string message);  ///< a bad_input error with its place

  const char* what() const noexcept override { return rendered_.c_str(); }
  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }
  const std::optional<SourcePlace>& place() const { return place_; }

 private:
  ErrorKind kind_;
  std::string message_;
  std::optional<SourcePlace> place_;
  std::string rendered_;  ///< "file:3:7: error: ...\n  line\n  ^"
};

/// The candidate nearest to `name` by edit distance, if any is near enough to be a slip
/// (at most a third of its letters, and at most 3); otherwise empty.
std::string_view nearest_name(std::string_view name, std::span<const std::string> candidates);

/// "; did you mean 'x'?" or "", for the end of a message.
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

/// Line `line` (from 1) of `text`, for SourcePlace::line_text; at most 200 bytes of it.
std::string line_of(std::string_view text, int line);

/// Checks an invariant in every build; throws an internal Error that names it.
void ensure(bool condition, std::string_view invariant);

}  // namespace orrery
