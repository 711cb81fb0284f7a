// Messages as JSON for people's scripts: keys are field names, numbers are numbers (64-bit ones
// too), an absent optional field or message is null, and the order is that of the field numbers,
// so that equal messages give equal bytes. Thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <nlohmann/json.hpp>

#include "core/schema/comments.hpp"

namespace orrery {

/// Absent fields are null; of a choice (a oneof) only the key that was chosen is there.
nlohmann::ordered_json to_json(const google::protobuf::Message& message);

/// What a JSON Schema says beside the rules of the fields.
struct SchemaNotes {
  SchemaComments comments = {};
  /// By the full name of a string field: values that are known, where others may do as well.
  std::map<std::string, std::vector<std::string>> known = {};
  /// By the value of `name` beside a google.protobuf.Any: the type of that Any.
  std::map<std::string, const google::protobuf::Descriptor*> parameters = {};
};

/// JSON Schema (draft 2020-12) of the YAML form of a message type, for editors.
nlohmann::ordered_json json_schema(const google::protobuf::Descriptor& type,
                                   const SchemaNotes& notes = {});

/// SHA-256 of the canonical form (sorted fields, after defaults) of a message.
std::string canonical_hash(const google::protobuf::Message& message);

}  // namespace orrery
