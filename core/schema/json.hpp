// Messages as JSON for scripts. Keys are field names, all numbers (64-bit numbers too) are JSON
// numbers, and an absent optional field or message is null. The keys have the order of the fields
// in the .proto file, so that equal messages give equal bytes. Thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <nlohmann/json.hpp>

#include "core/schema/comments.hpp"

namespace orrery {

/// Returns the JSON of a message. Absent fields are null; a oneof has only its chosen key. Numbers
/// that are not finite are null. A google.protobuf.Any is its message, or null if its type is not
/// linked in.
nlohmann::ordered_json to_json(const google::protobuf::Message& message);

/// Additions to a JSON Schema that the rules of the fields do not contain.
struct SchemaNotes {
  SchemaComments comments = {};  ///< descriptions of fields and messages
  /// Known values by the full name of a string field; other values may be valid too.
  std::map<std::string, std::vector<std::string>> known = {};
  /// Type of a google.protobuf.Any by the value of `name` beside it.
  std::map<std::string, const google::protobuf::Descriptor*> parameters = {};
};

/// Returns the JSON Schema (draft 2020-12) of the YAML form of a message type, for editors. If
/// `notes.parameters` has entries, they are the only valid values of `name` beside a
/// google.protobuf.Any.
nlohmann::ordered_json json_schema(const google::protobuf::Descriptor& type,
                                   const SchemaNotes& notes = {});

/// Returns the SHA-256, as 64 hex digits, of a message's canonical form: its JSON with all
/// defaults.
std::string canonical_hash(const google::protobuf::Message& message);

}  // namespace orrery
