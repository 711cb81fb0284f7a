// A message as the YAML that load_yaml() reads back into an equal one: the keys of its schema,
// quantities with their units. Called where a program writes a scenario for people. Thread-safe.
#pragma once

#include <string>

#include <google/protobuf/message.h>

namespace orrery {

/// Block style, two spaces; what is absent is left out. google.protobuf.Any fields are not written.
std::string to_yaml(const google::protobuf::Message& message);

}  // namespace orrery
