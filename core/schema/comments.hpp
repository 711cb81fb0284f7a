// Comments of the .proto files about messages and fields: compiled code lacks them, a descriptor
// set written with --include_source_info has them. For the JSON Schema and the pages generated from
// it. Thread-safe after construction.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include <google/protobuf/descriptor.h>

namespace orrery {

/// Comments of .proto files, by field and message.
class SchemaComments {
 public:
  SchemaComments() = default;  ///< no comments
  /// Reads a serialized FileDescriptorSet. Throws an internal Error for any other bytes.
  explicit SchemaComments(std::string_view descriptor_set);

  /// Returns the comments above and beside a field in one paragraph; empty if it has none.
  std::string of(const google::protobuf::FieldDescriptor& field) const;
  /// Returns the comments of a message in one paragraph; empty if it has none.
  std::string of(const google::protobuf::Descriptor& type) const;

 private:
  std::map<std::string, std::string> by_name_;  ///< keyed by full name
};

}  // namespace orrery
