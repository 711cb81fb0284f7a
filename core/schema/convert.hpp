// Conversion of a YAML tree to a message, by the schema. Used by load_yaml, check_yaml and
// set_field. Thread-safe: no state between conversions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <google/protobuf/message.h>

#include "core/schema/yaml_loader.hpp"
#include "core/schema/yaml_tree.hpp"

namespace orrery {

/// Collection of the problems of one text, up to a limit.
class Problems {
 public:
  /// Exception of add(): the collection has reached its limit.
  struct Full {};
  /// Constructs an empty collection; `limit` must be at least 1.
  explicit Problems(std::size_t limit) : limit_(limit) {}

  /// Appends a problem. Throws Full if the collection then has `limit` problems.
  void add(Error problem) {
    found_.push_back(std::move(problem));
    if (found_.size() >= limit_) throw Full{};
  }
  /// Returns the problems in the order of add(), that of the throwing call included.
  const std::vector<Error>& found() const { return found_; }

 private:
  std::size_t limit_;
  std::vector<Error> found_;
};

/// Converter of the nodes of one text. It adds invalid values to `problems` and leaves them out of
/// the message, and adds the place of every value to `places`. All references must outlive it. Both
/// methods throw Problems::Full when `problems` reaches its limit.
class Converter {
 public:
  Converter(std::string_view text, const std::string& file, Problems& problems, SourceMap& places)
      : text_(text), file_(file), problems_(problems), places_(places) {}

  /// Sets the fields of `message` from a map. `path` is the place of the message in the whole text,
  /// for example "job.layout"; "" is the root. `partial`: required keys may be absent. Parameters
  /// (google.protobuf.Any) are set last, because the field `name` decides their type.
  void fill_message(const YamlNode& node, google::protobuf::Message& message,
                    const std::string& path, bool partial);
  /// Sets one field from its value; replaces no entries of a repeated field, but appends.
  void fill_field(const YamlNode& node, google::protobuf::Message& message,
                  const google::protobuf::FieldDescriptor& field, const std::string& path);

 private:
  void report(int line, int column, const std::string& message);
  bool expect_kind(const YamlNode& node, YamlNode::Kind kind, const std::string& name);
  void fill_list(const YamlNode& node, google::protobuf::Message& message,
                 const google::protobuf::FieldDescriptor& field, const std::string& path);
  void fill_item(const YamlNode& node, google::protobuf::Message& message,
                 const google::protobuf::FieldDescriptor& field, const std::string& path);
  void fill_parameters(const YamlNode& node, google::protobuf::Message& message,
                       const google::protobuf::FieldDescriptor& field, const std::string& path);
  void report_unknown(const YamlKey& key, const google::protobuf::Descriptor& type,
                      const std::string& path);
  /// Reports a oneof with several keys, or with none if one is required.
  void check_choice(const YamlNode& node, const google::protobuf::OneofDescriptor& choice_of,
                    const std::string& path, bool partial);
  void report_missing(const YamlNode& node, const google::protobuf::Descriptor& type,
                      const std::string& path);

  std::string_view text_;
  const std::string& file_;
  Problems& problems_;
  SourceMap& places_;
};

/// Returns a joined path: "job.layout" + "data" is "job.layout.data".
std::string join_path(const std::string& path, std::string_view name);

/// Returns "; did you mean 'x'?" for a key that `type` lacks, also for a key that has moved from
/// `type` to the top of the file, or a list of its keys, or "; it takes no keys".
std::string key_hint(std::string_view name, const google::protobuf::Descriptor& type);

}  // namespace orrery
