// Messages as YAML that load_yaml() reads back into an equal message: the keys of the schema,
// quantities with their units. Called by programs that write a scenario for people. Thread-safe.
#pragma once

#include <string>

#include <google/protobuf/message.h>
#include <nlohmann/json.hpp>

namespace orrery {

/// Returns the YAML in block style with two spaces; absent fields are left out. google.protobuf.Any
/// fields are not written.
std::string to_yaml(const google::protobuf::Message& message);

/// Returns the YAML of a file. A scenario, a topology or a replay begins with the key `format`,
/// which states the newest version, for example `format: "1.1"`; other messages are as from
/// to_yaml().
std::string to_yaml_file(const google::protobuf::Message& message);

/// Returns the same keys and values as JSON, which is YAML too: quantities are texts with their
/// units, absent fields are left out. The parameters in google.protobuf.Any fields are written.
nlohmann::ordered_json to_yaml_json(const google::protobuf::Message& message);

}  // namespace orrery
