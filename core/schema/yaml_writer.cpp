#include "core/schema/yaml_writer.hpp"

#include <memory>
#include <string_view>

#include <fmt/format.h>
#include <google/protobuf/any.pb.h>

#include "core/schema/field_rules.hpp"
#include "core/schema/file_format.hpp"

namespace orrery {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Json = nlohmann::ordered_json;

/// Returns the text in double quotes: the JSON escapes are valid in YAML too.
std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  out += '"';
  return out;
}

/// Unit in which a stored value is written. Money rates are stored per second and written per hour;
/// shares are stored as fractions and written as percentages.
std::string_view unit_of(Dimension dimension) {
  switch (dimension) {
    case Dimension::none: return "";
    case Dimension::time: return " s";
    case Dimension::data: return " B";
    case Dimension::data_rate: return " B/s";
    case Dimension::flop_rate: return " FLOP/s";
    case Dimension::power: return " W";
    case Dimension::money: return " USD";
    case Dimension::money_rate: return " USD/h";
    case Dimension::share: return "%";
  }
  return "";
}

std::string number(double value, Dimension dimension) {
  const double written = dimension == Dimension::money_rate ? value * 3600
                         : dimension == Dimension::share    ? value * 100
                                                            : value;
  return fmt::format("{}{}", written, unit_of(dimension));
}

/// Returns a whole number with its unit. Times, stored in nanoseconds, stay whole numbers, because
/// a double cannot represent years of nanoseconds exactly.
std::string number(std::int64_t value, Dimension dimension) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  if (dimension != Dimension::time) return fmt::format("{}{}", value, unit_of(dimension));
  return value != 0 && value % kSecond == 0 ? fmt::format("{} s", value / kSecond)
                                            : fmt::format("{} ns", value);
}

bool stands(const Message& message, const FieldDescriptor& field) {
  if (field.is_repeated()) return message.GetReflection()->FieldSize(message, &field) > 0;
  // A required number may be 0, which is_present() cannot tell from an absent one.
  const bool number = field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE &&
                      field.cpp_type() != FieldDescriptor::CPPTYPE_STRING;
  return is_present(message, field) || (number && rule_of(field).required());
}

/// Returns entry `at` of a repeated field as text; with `at` = -1, the value of a single field.
std::string scalar(const Message& message, const FieldDescriptor& field, int at) {
  const auto& r = *message.GetReflection();
  const Dimension unit = dimension_of(rule_of(field));
  const auto get = [&](auto single, auto repeated) {
    return at < 0 ? (r.*single)(message, &field) : (r.*repeated)(message, &field, at);
  };
  using R = google::protobuf::Reflection;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return get(&R::GetBool, &R::GetRepeatedBool) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return number(get(&R::GetDouble, &R::GetRepeatedDouble), unit);
    case FieldDescriptor::CPPTYPE_INT64:
      return number(get(&R::GetInt64, &R::GetRepeatedInt64), unit);
    case FieldDescriptor::CPPTYPE_UINT64:
      return fmt::format("{}", get(&R::GetUInt64, &R::GetRepeatedUInt64));
    case FieldDescriptor::CPPTYPE_UINT32:
      return fmt::format("{}", get(&R::GetUInt32, &R::GetRepeatedUInt32));
    case FieldDescriptor::CPPTYPE_STRING:
      return in_quotes(get(&R::GetString, &R::GetRepeatedString));
    default: return "";  // no schema of Orrery has another type
  }
}

class Writer {
 public:
  std::string write(const Message& message) {
    fields(message, 0, 0);
    return std::move(out_);
  }

 private:
  void fields(const Message& message, int indent, int first_indent) {
    int own_indent = first_indent;
    for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
      const FieldDescriptor& field = *message.GetDescriptor()->field(i);
      if (is_any(field) || rule_of(field).internal() || !stands(message, field)) continue;
      out_.append(static_cast<std::size_t>(own_indent), ' ');
      own_indent = indent;
      out_.append(field.name()).append(":");
      value(message, field, indent);
    }
  }

  void value(const Message& message, const FieldDescriptor& field, int indent) {
    const auto& reflection = *message.GetReflection();
    const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (!field.is_repeated()) {
      if (!is_message) {
        out_.append(" ").append(scalar(message, field, -1)).append("\n");
        return;
      }
      const Message& inner = reflection.GetMessage(message, &field);
      const std::size_t before = out_.size();
      out_ += "\n";
      fields(inner, indent + 2, indent + 2);
      if (out_.size() == before + 1) out_.replace(before, 1, " {}\n");
      return;
    }
    out_ += "\n";
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
      out_.append(static_cast<std::size_t>(indent + 2), ' ').append("- ");
      if (is_message) {
        fields(reflection.GetRepeatedMessage(message, &field, i), indent + 4, 0);
      } else {
        out_.append(scalar(message, field, i)).append("\n");
      }
    }
  }

  std::string out_;
};

Json json_value(const Message& message, const FieldDescriptor& field, int at) {
  const auto& reflection = *message.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    const Message& inner = at < 0 ? reflection.GetMessage(message, &field)
                                  : reflection.GetRepeatedMessage(message, &field, at);
    return to_yaml_json(inner);
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    return at < 0 ? reflection.GetString(message, &field)
                  : reflection.GetRepeatedString(message, &field, at);
  }
  const std::string text = scalar(message, field, at);
  const bool quantity = dimension_of(rule_of(field)) != Dimension::none;
  return quantity ? Json(text) : Json::parse(text);
}

/// Returns the parameters beside the field `name`; null if they are absent or of unknown type.
Json parameters_json(const Message& holder, const FieldDescriptor& field) {
  const auto* type = parameters_type(holder);
  const auto* any = dynamic_cast<const google::protobuf::Any*>(
      &holder.GetReflection()->GetMessage(holder, &field));
  if (type == nullptr || any == nullptr) return nullptr;
  const std::unique_ptr<Message> inner(new_message(*type));
  return any->UnpackTo(inner.get()) ? to_yaml_json(*inner) : Json(nullptr);
}

}  // namespace

Json to_yaml_json(const Message& message) {
  Json object = Json::object();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    if (rule_of(field).internal() || !stands(message, field)) continue;
    if (is_any(field)) {
      const Json parameters = parameters_json(message, field);
      if (!parameters.is_null()) object[field.name()] = parameters;
    } else if (field.is_repeated()) {
      Json& list = object[field.name()] = Json::array();
      const int size = message.GetReflection()->FieldSize(message, &field);
      for (int k = 0; k < size; ++k) list.push_back(json_value(message, field, k));
    } else {
      object[field.name()] = json_value(message, field, -1);
    }
  }
  return object;
}

std::string to_yaml(const google::protobuf::Message& message) { return Writer().write(message); }

std::string to_yaml_file(const google::protobuf::Message& message) {
  const std::string text = to_yaml(message);
  if (!kind_of_file(message.GetTypeName())) return text;
  return fmt::format("{}: \"{}\"\n{}", kFormatKey, format_text(kFileFormat), text);
}

}  // namespace orrery
