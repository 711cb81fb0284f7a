// Messages as JSON for people's scripts: keys are field names, numbers are numbers (64-bit ones
// too), an absent optional field or message is null, and the order is that of the field numbers,
// so that equal messages give equal bytes. Thread-safe.
#pragma once

#include <string>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <nlohmann/json.hpp>

namespace orrery {

nlohmann::ordered_json to_json(const google::protobuf::Message& message);

/// JSON Schema (draft 2020-12) of the YAML form of a message type, for editors.
nlohmann::ordered_json json_schema(const google::protobuf::Descriptor& type);

/// SHA-256 of the canonical form (sorted fields, after defaults) of a message.
std::string canonical_hash(const google::protobuf::Message& message);

}  // namespace orrery
