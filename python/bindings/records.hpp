// Records (traces/trace.proto) to and from Python by reflection alone: a new event, action or
// setting needs nothing here. The classes are those that python/generate_records.py writes, and the
// rules the same: seconds for `_ns`, "lost" for HEALTH_LOST, lists of GPUs for runs of them, what
// was chosen for a message that is nothing but a choice. Raises TypeError and ValueError that name
// the field, what it takes and what it got. GIL held.
#pragma once

#include <cstdint>
#include <string>

#include <google/protobuf/message.h>
#include <pybind11/pybind11.h>

#include "core/ids.hpp"

namespace orrery::python {

/// An object of the class that belongs to the message; None for a choice that was not made.
pybind11::object to_python(const google::protobuf::Message& message);

/// Into the alternative of the choice `oneof` that the object's class belongs to; false: none.
bool choose_in_python(pybind11::handle object, const char* oneof,
                      google::protobuf::Message& message);

/// A whole number from 0 to `most`; `where` begins the error.
std::uint64_t whole_number(pybind11::handle value, const std::string& where,
                           std::uint64_t most = ~std::uint64_t{0});
Nanos nanos_of_seconds(pybind11::handle value, const std::string& where);
std::string utf8(pybind11::handle value, const std::string& where);
/// Text that need not be UTF-8.
pybind11::str text_of_bytes(const std::string& bytes);

/// Records of one kind as rows for NumPy: ([(column, format), ...], bytes). A sample is two
/// columns, its value and `_age` in seconds, both NaN if it is missing; enumerators are strings.
pybind11::tuple rows_of(const google::protobuf::Message& message, const char* field);

}  // namespace orrery::python
