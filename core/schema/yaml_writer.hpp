// A message as the YAML that load_yaml() reads back into an equal one: the keys of its schema,
// quantities with their units. Called where a program writes a scenario for people. Thread-safe.
#pragma once

#include <string>

#include <google/protobuf/message.h>
#include <nlohmann/json.hpp>

namespace orrery {

/// Block style, two spaces; what is absent is left out. google.protobuf.Any fields are not written.
std::string to_yaml(const google::protobuf::Message& message);

/// The same keys and values as JSON, which is YAML too: quantities are texts with their units, what
/// is absent is left out. The parameters in google.protobuf.Any fields are written.
nlohmann::ordered_json to_yaml_json(const google::protobuf::Message& message);

}  // namespace orrery
