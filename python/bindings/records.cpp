#include "python/bindings/records.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "policies/seam/decision.hpp"
#include "traces/trace.pb.h"

namespace py = pybind11;
using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

namespace orrery::python {
namespace {

// ---- names ----------------------------------------------------------------------------------

/// The class of a message; those of the package live as long as the interpreter.
py::handle class_of(const Descriptor& type) {
  static auto& known = *new std::map<const Descriptor*, py::object>;
  const auto found = known.find(&type);
  if (found != known.end()) return found->second;
  const py::object classes = py::module_::import("orrery._records").attr("CLASSES");
  return known.emplace(&type, classes[py::str(type.name())]).first->second;
}

bool seconds(const FieldDescriptor& field) { return field.name().ends_with("_ns"); }

/// Name of a field that is a reserved word of Python.
constexpr std::string_view kReservedWord = "from";

std::string python_name(const FieldDescriptor& field) {
  if (seconds(field)) return field.name().substr(0, field.name().size() - 3);
  return field.name() == kReservedWord ? field.name() + "_" : field.name();
}

/// "HEALTH_LOST" is "lost", "TIER_LOCAL_DISK" is "local-disk".
std::string enumerator(const EnumValueDescriptor& value) {
  std::string text = value.name().substr(value.name().find('_') + 1);
  for (char& c : text) c = static_cast<char>(c == '_' ? '-' : c >= 'A' && c <= 'Z' ? c + 32 : c);
  return text;
}

std::vector<std::string> enumerators(const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) names.push_back(enumerator(*type.value(i)));
  return names;
}

/// A message of which one alternative stands for the whole.
bool is_choice(const Descriptor& type) {
  return type.real_oneof_decl_count() == 1 &&
         type.oneof_decl(0)->field_count() == type.field_count();
}

bool is_gpu_runs(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
         field.message_type() == GpuRunRecord::descriptor();
}

/// Bits of the settings, in the order of the schema.
bool is_kinds(const FieldDescriptor& field) {
  return field.containing_type() == JobRecord::descriptor() &&
         field.number() == JobRecord::kCanFieldNumber;
}

// ---- to Python ------------------------------------------------------------------------------

py::object scalar(const Message& message, const FieldDescriptor& field, int index) {
  const auto& reflection = *message.GetReflection();
  const bool many = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      return py::int_(many ? reflection.GetRepeatedUInt32(message, &field, index)
                           : reflection.GetUInt32(message, &field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return py::int_(many ? reflection.GetRepeatedUInt64(message, &field, index)
                           : reflection.GetUInt64(message, &field));
    case FieldDescriptor::CPPTYPE_INT32: return py::int_(reflection.GetInt32(message, &field));
    case FieldDescriptor::CPPTYPE_INT64: {
      const std::int64_t value = reflection.GetInt64(message, &field);
      return seconds(field) ? py::object(py::float_(to_seconds(value))) : py::int_(value);
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: return py::float_(reflection.GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_BOOL: return py::bool_(reflection.GetBool(message, &field));
    case FieldDescriptor::CPPTYPE_STRING:
      return text_of_bytes(reflection.GetString(message, &field));
    case FieldDescriptor::CPPTYPE_ENUM:
      return py::str(enumerator(*reflection.GetEnum(message, &field)));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      if (many) return to_python(reflection.GetRepeatedMessage(message, &field, index));
      if (!reflection.HasField(message, &field)) return py::none();
      return to_python(reflection.GetMessage(message, &field));
    default: throw Error(ErrorKind::internal, "a record has fields of known types");
  }
}

py::list gpus(const Message& message, const FieldDescriptor& field) {
  py::list out;
  for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i) {
    const auto& run = static_cast<const GpuRunRecord&>(
        message.GetReflection()->GetRepeatedMessage(message, &field, i));
    for (std::uint32_t gpu = 0; gpu < run.count(); ++gpu) out.append(run.first() + gpu);
  }
  return out;
}

py::list kinds(std::uint32_t bits) {
  py::list out;
  for (std::size_t i = 0; i < setting_names().size(); ++i) {
    if ((bits >> i & 1u) != 0) out.append(py::str(std::string(setting_names()[i])));
  }
  return out;
}

py::object value_of(const Message& message, const FieldDescriptor& field) {
  if (is_gpu_runs(field)) return gpus(message, field);
  if (is_kinds(field)) return kinds(message.GetReflection()->GetUInt32(message, &field));
  const bool absent =
      field.has_optional_keyword() && !message.GetReflection()->HasField(message, &field);
  if (absent) return py::none();
  if (!field.is_repeated()) return scalar(message, field, 0);
  py::list out;
  for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i) {
    out.append(scalar(message, field, i));
  }
  return out;
}

// ---- from Python ----------------------------------------------------------------------------

std::string shown(py::handle value) {
  std::string text = py::repr(value).cast<std::string>();
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

template <class Raise>
[[noreturn]] void refuse(const std::string& where, const std::string& expected, py::handle got) {
  throw Raise(fmt::format("{}: expected {}, got {}", where, expected, shown(got)));
}

double number(py::handle value, const std::string& where) {
  const double out = PyFloat_AsDouble(value.ptr());
  if (out == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    refuse<py::type_error>(where, "a number", value);
  }
  return out;
}

const EnumValueDescriptor* enum_value(py::handle value, const EnumDescriptor& type,
                                      const std::string& where) {
  const std::vector<std::string> names = enumerators(type);
  const std::string given = py::isinstance<py::str>(value) ? value.cast<std::string>() : "";
  for (int i = 0; i < type.value_count(); ++i) {
    if (names[static_cast<std::size_t>(i)] == given) return type.value(i);
  }
  const std::string expected =
      fmt::format("one of '{}'{}", fmt::join(names, "', '"), did_you_mean(given, names));
  refuse<py::value_error>(where, expected, value);
}

py::iterator items_of(py::handle value, const std::string& where, const char* expected) {
  PyObject* items = py::isinstance<py::str>(value) ? nullptr : PyObject_GetIter(value.ptr());
  if (items == nullptr) {
    PyErr_Clear();
    refuse<py::type_error>(where, expected, value);
  }
  return py::reinterpret_steal<py::iterator>(items);
}

void set_gpus(py::handle value, Message& message, const FieldDescriptor& field,
              const std::string& where) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  GpuRunRecord* last = nullptr;
  const auto append = [&](std::uint64_t first, std::uint64_t count) {
    if (count == 0) return;
    if (last != nullptr && std::uint64_t{last->first()} + last->count() == first) {
      last->set_count(static_cast<std::uint32_t>(last->count() + count));
      return;
    }
    last = static_cast<GpuRunRecord*>(message.GetReflection()->AddMessage(&message, &field));
    last->set_first(static_cast<std::uint32_t>(first));
    last->set_count(static_cast<std::uint32_t>(count));
  };
  for (const py::handle item : items_of(value, where, "a list of GPUs and ranges of GPUs")) {
    if (!PyRange_Check(item.ptr())) {
      append(whole_number(item, where, kMost), 1);
    } else if (whole_number(item.attr("step"), where) == 1) {
      append(whole_number(item.attr("start"), where, kMost), py::len(item));
    } else {
      for (const py::handle gpu : item) append(whole_number(gpu, where, kMost), 1);
    }
  }
}

void fill(py::handle object, Message& message, const std::string& where);

void set_scalar(py::handle value, Message& message, const FieldDescriptor& field,
                const std::string& where) {
  const auto& reflection = *message.GetReflection();
  const bool many = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32: {
      const auto number = static_cast<std::uint32_t>(
          whole_number(value, where, std::numeric_limits<std::uint32_t>::max()));
      return many ? reflection.AddUInt32(&message, &field, number)
                  : reflection.SetUInt32(&message, &field, number);
    }
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.SetUInt64(&message, &field, whole_number(value, where));
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.SetInt32(&message, &field, static_cast<std::int32_t>(number(value, where)));
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.SetInt64(&message, &field, nanos_of_seconds(value, where));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.SetDouble(&message, &field, number(value, where));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.SetBool(&message, &field, PyObject_IsTrue(value.ptr()) == 1);
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.SetString(&message, &field, utf8(value, where));
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.SetEnum(&message, &field, enum_value(value, *field.enum_type(), where));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return fill(value,
                  many ? *reflection.AddMessage(&message, &field)
                       : *reflection.MutableMessage(&message, &field),
                  where);
    default: throw Error(ErrorKind::internal, "a record has fields of known types");
  }
}

/// Sets the bits of the settings with these names.
void set_kinds(py::handle value, Message& message, const FieldDescriptor& field,
               const std::string& where) {
  const std::vector<std::string> names(setting_names().begin(), setting_names().end());
  std::uint32_t bits = 0;
  for (const py::handle item : items_of(value, where, "a list of names of settings")) {
    const std::string given = utf8(item, where);
    const auto found = std::find(names.begin(), names.end(), given);
    if (found == names.end()) {
      refuse<py::value_error>(where, fmt::format("names of settings{}", did_you_mean(given, names)),
                              item);
    }
    bits |= 1u << (found - names.begin());
  }
  message.GetReflection()->SetUInt32(&message, &field, bits);
}

void set_value(py::handle value, Message& message, const FieldDescriptor& field,
               const std::string& where) {
  if (value.is_none()) return;
  if (is_kinds(field)) return set_kinds(value, message, field, where);
  if (is_gpu_runs(field)) return set_gpus(value, message, field, where);
  if (!field.is_repeated()) return set_scalar(value, message, field, where);
  const char* expected = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE
                             ? "a list of rules"
                             : "a list of whole numbers from 0";
  for (const py::handle item : items_of(value, where, expected)) {
    set_scalar(item, message, field, where);
  }
}

std::string class_name(const Descriptor& type) {
  return py::str(class_of(type).attr("__name__")).cast<std::string>();
}

bool choose_of(py::handle object, const google::protobuf::OneofDescriptor& oneof,
               Message& message) {
  for (int i = 0; i < oneof.field_count(); ++i) {
    const FieldDescriptor* field = oneof.field(i);
    if (!py::isinstance(object, class_of(*field->message_type()))) continue;
    fill(object, *message.GetReflection()->MutableMessage(&message, field), "");
    return true;
  }
  return false;
}

void fill(py::handle object, Message& message, const std::string& where) {
  const Descriptor& type = *message.GetDescriptor();
  if (is_choice(type)) {
    if (choose_of(object, *type.oneof_decl(0), message)) return;
    std::vector<std::string> names;
    for (int i = 0; i < type.field_count(); ++i) {
      names.push_back(class_name(*type.field(i)->message_type()));
    }
    refuse<py::type_error>(where, fmt::format("one of {}", fmt::join(names, ", ")), object);
  }
  if (!py::isinstance(object, class_of(type))) {
    refuse<py::type_error>(where, class_name(type) + "(...)", object);
  }
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const std::string name = python_name(field);
    set_value(object.attr(name.c_str()), message, field,
              fmt::format("{}.{}", class_name(type), name));
  }
}

// ---- rows -----------------------------------------------------------------------------------

constexpr std::size_t kNameColumn = 20;  ///< characters

void append_name(const std::string& name, std::string& out) {
  for (std::size_t i = 0; i < kNameColumn; ++i) {
    const std::uint32_t letter = i < name.size() ? static_cast<unsigned char>(name[i]) : 0;
    out.append(reinterpret_cast<const char*>(&letter), sizeof letter);
  }
}

template <class Number>
void append_number(Number value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_sample(const Message& record, const FieldDescriptor& field, std::string& out) {
  constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
  const bool there = record.GetReflection()->HasField(record, &field);
  const auto& sample =
      static_cast<const SampleRecord&>(record.GetReflection()->GetMessage(record, &field));
  const bool known = there && sample.origin() != 2;
  append_number(known ? sample.value() : kMissing, out);
  append_number(known ? to_seconds(sample.age()) : kMissing, out);
}

void append_row(const Message& record, std::string& out) {
  const auto& reflection = *record.GetReflection();
  const Descriptor& type = *record.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_UINT32:
        append_number(reflection.GetUInt32(record, &field), out);
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        append_number(reflection.GetUInt64(record, &field), out);
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        append_number(reflection.GetDouble(record, &field), out);
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        append_name(enumerator(*reflection.GetEnum(record, &field)), out);
        break;
      default: append_sample(record, field, out);
    }
  }
}

py::list columns_of(const Descriptor& type) {
  py::list out;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const std::string& name = field.name();
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_UINT32: out.append(py::make_tuple(name, "u4")); break;
      case FieldDescriptor::CPPTYPE_UINT64: out.append(py::make_tuple(name, "u8")); break;
      case FieldDescriptor::CPPTYPE_DOUBLE: out.append(py::make_tuple(name, "f8")); break;
      case FieldDescriptor::CPPTYPE_ENUM:
        out.append(py::make_tuple(name, fmt::format("U{}", kNameColumn)));
        break;
      default:
        out.append(py::make_tuple(name, "f8"));
        out.append(py::make_tuple(name + "_age", "f8"));
    }
  }
  return out;
}

}  // namespace

py::str text_of_bytes(const std::string& bytes) {
  PyObject* text =
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape");
  if (text == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(text);
}

std::string utf8(py::handle value, const std::string& where) {
  if (!py::isinstance<py::str>(value)) refuse<py::type_error>(where, "a text", value);
  const auto bytes = py::reinterpret_steal<py::object>(
      PyUnicode_AsEncodedString(value.ptr(), "utf-8", "surrogateescape"));
  if (!bytes) throw py::error_already_set();
  return py::reinterpret_borrow<py::bytes>(bytes);
}

std::uint64_t whole_number(py::handle value, const std::string& where, std::uint64_t most) {
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (!index) {
    PyErr_Clear();
    refuse<py::type_error>(where, "a whole number", value);
  }
  const std::uint64_t out = PyLong_AsUnsignedLongLong(index.ptr());
  const bool failed = PyErr_Occurred() != nullptr;
  PyErr_Clear();
  if (failed || out > most) {
    refuse<py::value_error>(where, fmt::format("a whole number from 0 to {}", most), value);
  }
  return out;
}

Nanos nanos_of_seconds(py::handle value, const std::string& where) {
  const double given = number(value, where);
  if (!(std::abs(given) < to_seconds(kNever))) {
    refuse<py::value_error>(where, "seconds", value);
  }
  return to_nanos(given);
}

py::object to_python(const Message& message) {
  const Descriptor& type = *message.GetDescriptor();
  if (is_choice(type)) {
    const FieldDescriptor* chosen =
        message.GetReflection()->GetOneofFieldDescriptor(message, type.oneof_decl(0));
    if (chosen == nullptr) return py::none();
    return to_python(message.GetReflection()->GetMessage(message, chosen));
  }
  py::tuple values(static_cast<std::size_t>(type.field_count()));
  for (int i = 0; i < type.field_count(); ++i) {
    values[static_cast<std::size_t>(i)] = value_of(message, *type.field(i));
  }
  return class_of(type)(*values);
}

bool choose_in_python(py::handle object, const char* oneof, Message& message) {
  return choose_of(object, *message.GetDescriptor()->FindOneofByName(oneof), message);
}

py::tuple decision_in_python(const DecisionRecord& decision) {
  const auto& oneof = *DecisionRecord::descriptor()->FindOneofByName("what");
  const FieldDescriptor* what = decision.GetReflection()->GetOneofFieldDescriptor(decision, &oneof);
  const auto known = [](bool has, auto value) {
    return has ? py::object(py::cast(value)) : py::object(py::none());
  };
  return py::make_tuple(decision.id(),
                        what == nullptr
                            ? py::object(py::none())
                            : to_python(decision.GetReflection()->GetMessage(decision, what)),
                        decision.at_step(), known(decision.has_if_epoch(), decision.if_epoch()),
                        known(decision.expires() != kNever, to_seconds(decision.expires())),
                        decision.group(), text_of_bytes(decision.why()));
}

void row_from_python(py::handle row, Message& message) {
  const Descriptor& type = *message.GetDescriptor();
  if (!py::isinstance<py::dict>(row)) refuse<py::type_error>("samples", "rows that are dicts", row);
  for (const auto& [key, value] : row.cast<py::dict>()) {
    const std::string name = utf8(key, "samples");
    const FieldDescriptor* field = type.FindFieldByName(name);
    if (field == nullptr) {
      std::vector<std::string> names;
      for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
      throw py::value_error(fmt::format("samples: there is no '{}'{}; known: {}", name,
                                        did_you_mean(name, names), fmt::join(names, ", ")));
    }
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      set_value(value, message, *field, name);
      continue;
    }
    auto& sample =
        static_cast<SampleRecord&>(*message.GetReflection()->MutableMessage(&message, field));
    sample.set_value(number(value, name));
    sample.set_origin(std::isnan(sample.value()) ? 2 : 0);
  }
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* field = type.field(i);
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE ||
        message.GetReflection()->HasField(message, field)) {
      continue;
    }
    static_cast<SampleRecord&>(*message.GetReflection()->MutableMessage(&message, field))
        .set_origin(2);
  }
}

py::tuple rows_of(const Message& message, const char* field_name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(field_name);
  std::string rows;
  for (int i = 0; i < message.GetReflection()->FieldSize(message, field); ++i) {
    append_row(message.GetReflection()->GetRepeatedMessage(message, field, i), rows);
  }
  return py::make_tuple(columns_of(*field->message_type()), py::bytes(rows));
}

}  // namespace orrery::python
