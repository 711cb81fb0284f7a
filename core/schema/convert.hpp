// A YAML tree into a message, by the schema. Used by load_yaml, check_yaml and set_field.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <google/protobuf/message.h>

#include "core/schema/yaml_loader.hpp"
#include "core/schema/yaml_tree.hpp"

namespace orrery {

/// Collects problems up to a limit; add() throws Full when it is reached.
class Problems {
 public:
  struct Full {};
  explicit Problems(std::size_t limit) : limit_(limit) {}

  void add(Error problem) {
    found_.push_back(std::move(problem));
    if (found_.size() >= limit_) throw Full{};
  }
  const std::vector<Error>& found() const { return found_; }

 private:
  std::size_t limit_;
  std::vector<Error> found_;
};

/// Converts nodes of one text. Values that are wrong are reported and left out.
class Converter {
 public:
  Converter(std::string_view text, const std::string& file, Problems& problems, SourceMap& places)
      : text_(text), file_(file), problems_(problems), places_(places) {}

  /// `partial`: required keys may be absent.
  void fill_message(const YamlNode& node, google::protobuf::Message& message,
                    const std::string& path, bool partial);
  void fill_field(const YamlNode& node, google::protobuf::Message& message,
                  const google::protobuf::FieldDescriptor& field, const std::string& path);

 private:
  void report(int line, int column, const std::string& message);
  bool expect(const YamlNode& node, YamlNode::Kind kind, const std::string& name);
  void fill_list(const YamlNode& node, google::protobuf::Message& message,
                 const google::protobuf::FieldDescriptor& field, const std::string& path);
  void fill_item(const YamlNode& node, google::protobuf::Message& message,
                 const google::protobuf::FieldDescriptor& field, const std::string& path);
  void fill_parameters(const YamlNode& node, google::protobuf::Message& message,
                       const google::protobuf::FieldDescriptor& field, const std::string& path);
  void report_unknown(const YamlKey& key, const google::protobuf::Descriptor& type,
                      const std::string& path);
  /// Of the keys of a oneof one may be written; none only where it need not be.
  void check_choice(const YamlNode& node, const google::protobuf::OneofDescriptor& choice_of,
                    const std::string& path, bool partial);
  void report_missing(const YamlNode& node, const google::protobuf::Descriptor& type,
                      const std::string& path);

  std::string_view text_;
  const std::string& file_;
  Problems& problems_;
  SourceMap& places_;
};

/// "job.layout" + "data" is "job.layout.data".
std::string join_path(const std::string& path, std::string_view name);

/// "; did you mean 'x'?" for a key that `type` does not have, or the keys that it has.
std::string key_hint(std::string_view name, const google::protobuf::Descriptor& type);

}  // namespace orrery
