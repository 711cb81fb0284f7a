#include "core/schema/yaml_writer.hpp"

#include <string_view>

#include <fmt/format.h>

#include "core/schema/field_rules.hpp"

namespace orrery {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

/// In double quotes: the JSON escapes are YAML's too.
std::string quoted(std::string_view text) {
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

/// The unit in which a stored value is written; money rates are stored a second, written an hour.
std::string_view unit_of(Dimension dimension, bool nanoseconds) {
  switch (dimension) {
    case Dimension::none: return "";
    case Dimension::time: return nanoseconds ? " ns" : " s";
    case Dimension::data: return " B";
    case Dimension::data_rate: return " B/s";
    case Dimension::flop_rate: return " FLOP/s";
    case Dimension::power: return " W";
    case Dimension::money: return " USD";
    case Dimension::money_rate: return " USD/h";
  }
  return "";
}

std::string number(double value, Dimension dimension) {
  const double written = dimension == Dimension::money_rate ? value * 3600 : value;
  return fmt::format("{}{}", written, unit_of(dimension, false));
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
      if (is_any(field) || !stands(message, field)) continue;
      out_.append(static_cast<std::size_t>(own_indent), ' ');
      own_indent = indent;
      out_.append(field.name()).append(":");
      value(message, field, indent);
    }
  }

  static bool stands(const Message& message, const FieldDescriptor& field) {
    if (field.is_repeated()) return message.GetReflection()->FieldSize(message, &field) > 0;
    // A required number may be 0, which reads as absent.
    const bool number = field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE &&
                        field.cpp_type() != FieldDescriptor::CPPTYPE_STRING;
    return is_present(message, field) || (number && rule_of(field).required());
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

  /// Entry `at` of a repeated field, or the field itself at -1.
  static std::string scalar(const Message& message, const FieldDescriptor& field, int at) {
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
        return fmt::format("{}{}", get(&R::GetInt64, &R::GetRepeatedInt64), unit_of(unit, true));
      case FieldDescriptor::CPPTYPE_UINT64:
        return fmt::format("{}", get(&R::GetUInt64, &R::GetRepeatedUInt64));
      case FieldDescriptor::CPPTYPE_UINT32:
        return fmt::format("{}", get(&R::GetUInt32, &R::GetRepeatedUInt32));
      case FieldDescriptor::CPPTYPE_STRING:
        return quoted(get(&R::GetString, &R::GetRepeatedString));
      default: return "";  // no schema of ours has another
    }
  }

  std::string out_;
};

}  // namespace

std::string to_yaml(const google::protobuf::Message& message) { return Writer().write(message); }

}  // namespace orrery
