// What the .proto files say of their messages and fields: compiled code has lost it, a descriptor
// set written with --include_source_info has not. For the JSON Schema and the pages made from it.
// Thread-safe after construction.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include <google/protobuf/descriptor.h>

namespace orrery {

class SchemaComments {
 public:
  SchemaComments() = default;  ///< nothing is said of anything
  /// `descriptor_set`: a serialized FileDescriptorSet. Throws an internal Error if it is none.
  explicit SchemaComments(std::string_view descriptor_set);

  /// In one paragraph; empty where nothing is said. What stands above, then what stands beside.
  std::string of(const google::protobuf::FieldDescriptor& field) const;
  std::string of(const google::protobuf::Descriptor& type) const;

 private:
  std::map<std::string, std::string> by_name_;  ///< by the full name
};

}  // namespace orrery
