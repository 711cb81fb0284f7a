// Strict YAML loader: the message type is the schema, its field options (options.proto) are the
// units, ranges and defaults. The loader refuses, with file:line:column, the line, a caret and the
// nearest name: unknown and duplicate keys, wrong types and units, values out of range, missing
// required keys, anchors, aliases, merge keys, tags, second documents, more than 16 MiB, 200 levels
// or a million values. Scalars are converted by the schema from their text (NO stays a string, 010
// is refused). Thread-safe: no state between calls.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <google/protobuf/message.h>

#include "core/error.hpp"

namespace orrery {

/// Places of the values of a loaded message. Paths are written "job.layout.data" and
/// "faults[2].rank"; the root is "".
class SourceMap {
 public:
  SourceMap() = default;
  SourceMap(std::string file, std::string text) : file_(std::move(file)), text_(std::move(text)) {}

  /// Records the place of the value at `path`, in place of an earlier one. Line and column count
  /// from 1.
  void add(std::string path, int line, int column);
  /// Records that set_field() replaced the value at `path`: place_of() then returns the place of
  /// the value in `line`, the override as written ("path=value"), of `origin` (such as "--set")
  /// instead of a place in the text, also for values inside of `path` that have no place of their
  /// own. A later override of the same path replaces this one.
  void add_override(std::string_view path, const std::string& line, std::string origin);
  /// Returns the place of the value at `path`, or of the nearest value that encloses it; the begin
  /// of the text if the map has no such place.
  SourcePlace place_of(std::string_view path) const;
  /// Returns the loaded text; empty for a message that was not loaded from text.
  const std::string& text() const { return text_; }
  /// Returns true if the map has no place of the text: the message was not loaded from text.
  bool empty() const { return places_.empty(); }
  /// Returns the name of the file as given to load_yaml(); empty for a message that was not loaded
  /// from text. Overrides are places in their `origin`, not in this file.
  const std::string& file() const { return file_; }

 private:
  std::string file_, text_;
  std::map<std::string, std::pair<int, int>, std::less<>> places_;
  std::map<std::string, SourcePlace, std::less<>> overrides_;
};

/// Loads `text` into `message` (cleared first). Absent keys stay absent: defaults come from
/// fill_defaults(), after presets are resolved. `file` is for messages only. The type of a
/// google.protobuf.Any field beside a string field `name` is orrery.<CamelCaseOfName>Parameters.
/// Throws Error(bad_input) at the first problem; the values before the problem are then set.
SourceMap load_yaml(std::string_view text, const std::string& file,
                    google::protobuf::Message& message);

/// Loads the file at `path` by the rules of load_yaml(). Throws bad_input too if the file cannot be
/// read, with the file's name as the place.
SourceMap load_yaml_file(const std::string& path, google::protobuf::Message& message);

/// Loads the valid values of `text` into `message` (cleared first) and returns all problems, at
/// most `limit` (at least 1); empty if the text is valid. A syntax error is the only problem of its
/// text.
std::vector<Error> check_yaml(std::string_view text, const std::string& file,
                              google::protobuf::Message& message, std::size_t limit = 100);

/// Sets one field by its path ("job.layout.data", "faults[0].slow",
/// "policies[0].parameters.late_threshold") from its text, by the same rules as load_yaml; the path
/// of a moved key (file_format.hpp) may be its earlier one. The text
/// of a list or map is YAML and replaces the old value. Creates the absent messages on the path,
/// and leaves them if it throws; an entry of a list must exist. `origin` names the override in
/// messages, such as "--set". Throws bad_input if the path does not exist or the text is not a
/// valid value; a single value is then unchanged, a list or map empty or partly set.
void set_field(google::protobuf::Message& message, std::string_view path, std::string_view text,
               const std::string& origin);

/// Sets every absent field that has a default to the default, recursively. Creates only those
/// absent sub-messages whose fields all have defaults. Parameters (google.protobuf.Any) of the type
/// that `name` selects are created or completed; parameters of another type are replaced.
void fill_defaults(google::protobuf::Message& message);

/// Returns a bad_input error at the place of `path`. If `places` is empty (the message was not
/// loaded from text), the error has no place, and its message begins with `path`.
Error problem_at(const SourceMap& places, std::string_view path, const std::string& message);

/// Returns `error` with the place of the path at the start of its message ("job.layout: ..."). An
/// error of another kind than bad_input, without such a path or with a place is returned unchanged,
/// and so is every error if `places` is empty. Used by checks that run after the text has been
/// loaded.
Error with_place(const Error& error, const SourceMap& places);

/// Throws bad_input at `path` if a required field or a required choice (oneof) of `message` is
/// absent, recursively, outside of google.protobuf.Any. A field whose rule has an `unless` may be
/// absent if that field is present. A number without presence counts as absent if it is 0. Called
/// for messages that may be partial in the text, after a preset has completed them.
void check_whole(const google::protobuf::Message& message, const SourceMap& places,
                 const std::string& path);

}  // namespace orrery
