// Conversion of records (traces/trace.proto) to and from Python by reflection alone: a new event,
// action or setting needs no code here. The classes are those that python/generate_records.py
// writes, with the same rules: seconds for `_ns`, "lost" for HEALTH_LOST, lists of GPUs for runs of
// them, the chosen value for a message that is only a oneof. Raises TypeError and ValueError with
// the field, the expected and the found value. GIL held.
#pragma once

#include <cstdint>
#include <string>

#include <google/protobuf/message.h>
#include <pybind11/pybind11.h>

#include "core/ids.hpp"
#include "traces/trace.pb.h"

namespace orrery::python {

/// Returns an object of the class that belongs to the message; None for an unset choice.
pybind11::object to_python(const google::protobuf::Message& message);

/// Sets the alternative of the oneof `oneof` to which the object's class belongs; returns false if
/// none matches.
bool choose_in_python(pybind11::handle object, const char* oneof,
                      google::protobuf::Message& message);

/// Returns a decision as (id, action, at_step, if_epoch, expires in s, group, why); None for a
/// condition that is not set.
pybind11::tuple decision_in_python(const DecisionRecord& decision);

/// Writes a mapping from field names to values into a record of telemetry. A sample is a number and
/// counts as measured now; NaN is a missing one.
void row_from_python(pybind11::handle row, google::protobuf::Message& message);

/// Returns a whole number from 0 to `most`. Throws an error that begins with `where` otherwise.
std::uint64_t whole_number(pybind11::handle value, const std::string& where,
                           std::uint64_t most = ~std::uint64_t{0});
Nanos nanos_of_seconds(pybind11::handle value, const std::string& where);
std::string utf8(pybind11::handle value, const std::string& where);
/// Returns text whose bytes need not be UTF-8.
pybind11::str text_of_bytes(const std::string& bytes);

/// Returns records of one kind as rows for NumPy: ([(column, format), ...], bytes). A sample is two
/// columns, its value and `_age` in seconds, both NaN if it is missing; enumerators are strings.
pybind11::tuple rows_of(const google::protobuf::Message& message, const char* field);

}  // namespace orrery::python
