// YAML in, message out, strictly: the message type is the schema, its field options (options.proto)
// are the units, ranges and defaults. Refused with file:line:column, the line, a caret and the
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

/// Where each value of a loaded message stands. Paths are written "job.layout.data" and
/// "faults[2].rank"; the root is "".
class SourceMap {
 public:
  SourceMap() = default;
  SourceMap(std::string file, std::string text) : file_(std::move(file)), text_(std::move(text)) {}

  void add(std::string path, int line, int column);
  /// What set_field() has put at `path`: its place is the override from now on, not the text.
  void add_override(std::string_view path, std::string_view value, std::string origin);
  /// The place of `path`, or of its nearest enclosing value that was written.
  SourcePlace place(std::string_view path) const;
  const std::string& text() const { return text_; }
  bool empty() const { return places_.empty(); }
  const std::string& file() const { return file_; }

 private:
  std::string file_, text_;
  std::map<std::string, std::pair<int, int>, std::less<>> places_;
  std::map<std::string, SourcePlace, std::less<>> overrides_;
};

/// Loads `text` into `message` (cleared first). Absent keys stay absent: defaults come from
/// fill_defaults(), after presets are resolved. `file` is for messages only. The type of a
/// google.protobuf.Any field beside a string field `name` is orrery.<CamelCaseOfName>Parameters.
/// Throws Error(bad_input) at the first problem.
SourceMap load_yaml(std::string_view text, const std::string& file,
                    google::protobuf::Message& message);

/// The same for a file on disk. A file that cannot be read is bad_input too (with the file's
/// name as its place).
SourceMap load_yaml_file(const std::string& path, google::protobuf::Message& message);

/// All problems, up to `limit`, instead of the first; empty if the text is good.
std::vector<Error> check_yaml(std::string_view text, const std::string& file,
                              google::protobuf::Message& message, std::size_t limit = 100);

/// Sets one field by its path ("job.layout.data", "faults[0].slow",
/// "policies[0].parameters.late_threshold") from its text, by the same rules as load_yaml.
/// `origin` names the override in messages, such as "--set".
void set_field(google::protobuf::Message& message, std::string_view path, std::string_view text,
               const std::string& origin);

/// Fills in the defaults of every field that has one and is absent, recursively; present
/// sub-messages only, but sub-messages whose fields all have defaults are created.
void fill_defaults(google::protobuf::Message& message);

/// A bad_input error at the place of `path`; without a place, but with the path in its message,
/// when nothing was loaded from text.
Error problem_at(const SourceMap& places, std::string_view path, const std::string& message);

/// A bad_input error without a place whose message begins with a path ("job.layout: ..."), with the
/// place of that path; any other error as it is. For what is found out far from the text.
Error with_place(const Error& error, const SourceMap& places);

/// Throws bad_input at `path` if a required field of `message` is absent, recursively: for messages
/// that the schema lets be partial, once they are completed.
void check_whole(const google::protobuf::Message& message, const SourceMap& places,
                 const std::string& path);

}  // namespace orrery
