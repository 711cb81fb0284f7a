// Errors of all programs. An Error contains the problem, its place (file:line:column with the line
// itself and a caret) and a suggestion; its kind decides the exit code. Errors are thrown, never
// returned; main() of each executable prints them and exits.
//
// These rules hold in all headers. A function passes on the errors of what it calls (files,
// processes, connections, devices, memory, callbacks and policies) unless its comment says that it
// throws nothing; comments name the errors that belong to its meaning, such as those of invalid
// input. An argument outside the values that a comment or type allows, an id that does not exist,
// or a call out of a stated order is a defect of the caller: an internal Error, std::out_of_range,
// or undefined where a check would cost too much.
#pragma once

#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace orrery {

/// Kinds of errors; the value is the exit code on which scripts rely.
enum class ErrorKind {
  goal_missed = 1,  ///< the run completed, but a stated goal or comparison failed
  usage = 2,        ///< the command line is invalid
  bad_input = 3,    ///< a file is invalid
  environment = 4,  ///< the machine lacks a resource (GPU, library, port, memory)
  internal = 5,     ///< a defect of Orrery
};

/// Place in a text. Lines and columns count from 1; columns count bytes.
struct SourcePlace {
  std::string file;
  int line = 1;
  int column = 1;
  std::string line_text;  ///< the line itself, without its end
};

/// Exception of all programs, with kind, message and place.
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message);     ///< an error without a place
  Error(SourcePlace place, std::string message);  ///< a bad_input error with its place

  /// Returns the complete text for the user: place, message, and the line with a caret; without a
  /// place "error: " and the message. Control characters of the line become '?'. Valid as long as
  /// the error.
  const char* what() const noexcept override { return rendered_.c_str(); }
  /// Returns the kind, whose value is the exit code.
  ErrorKind kind() const { return kind_; }
  /// Returns the message alone, without the place.
  const std::string& message() const { return message_; }
  /// Returns the place of the problem; nothing if the error has none.
  const std::optional<SourcePlace>& source_place() const { return place_; }

 private:
  ErrorKind kind_;
  std::string message_;
  std::optional<SourcePlace> place_;
  std::string rendered_;  ///< "file:3:7: error: ...\n  line\n  ^"
};

/// Returns the candidate nearest to `name` by edit distance, if it is near enough to be a typing
/// error (at most a third of its letters, rounded up, and at most 3); otherwise empty. A `name` of
/// more than 100 bytes has no nearest candidate. The result is a view into `candidates`; of equally
/// near candidates, the first.
std::string_view nearest_name(std::string_view name, std::span<const std::string> candidates);

/// Returns "; did you mean 'x'?" or "", for the end of a message.
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

/// Returns line `line` (from 1) of `text` for SourcePlace::line_text, at most its first 200 bytes;
/// empty if `text` has fewer lines.
std::string line_of(std::string_view text, int line);

/// Checks an invariant in every build. Throws an internal Error that names `invariant` if
/// `condition` is false.
void ensure(bool condition, std::string_view invariant);

}  // namespace orrery
