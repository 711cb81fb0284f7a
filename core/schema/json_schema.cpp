// JSON Schema of the YAML form of a message type, from the same rules that the loader enforces.
#include <cstdint>
#include <map>
#include <string>

#include <fmt/format.h>

#include "core/schema/field_rules.hpp"
#include "core/schema/json.hpp"

namespace orrery {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using Json = nlohmann::ordered_json;
using Types = std::map<std::string, const Descriptor*>;  // by name

Json number_schema(const FieldDescriptor& field) {
  const FieldRule& rules = rule_of(field);
  const bool whole = field.cpp_type() != FieldDescriptor::CPPTYPE_DOUBLE;
  const auto bound = [&](double value) {
    return whole ? Json(static_cast<std::int64_t>(value)) : Json(value);
  };
  Json schema = {{"type", whole ? "integer" : "number"}, {"minimum", bound(range_of(field).low)}};
  if (rules.has_max()) schema["maximum"] = bound(rules.max());
  return schema;
}

Json quantity_schema(Dimension dimension) {
  const std::string example(example_of(dimension));
  return {{"type", "string"},
          {"pattern", R"(^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)? ?[A-Za-z/]+$)"},
          {"examples", Json::array({example})},
          {"description", fmt::format("a quantity with its unit, for example {}", example)}};
}

Json string_schema(const FieldRule& rules) {
  Json schema = {{"type", "string"}};
  if (rules.required()) schema["minLength"] = 1;
  for (const std::string& value : rules.one_of()) schema["enum"].push_back(value);
  return schema;
}

Json value_schema(const FieldDescriptor& field, Types& used) {
  const FieldRule& rules = rule_of(field);
  if (is_any(field)) {
    return {{"type", "object"}, {"description", "the parameters of what 'name' says"}};
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    used.emplace(field.message_type()->name(), field.message_type());
    const char* part = rules.partial() ? "_partial" : "";
    return {{"$ref", fmt::format("#/$defs/{}{}", field.message_type()->name(), part)}};
  }
  if (rules.unit() != UNITLESS) return quantity_schema(dimension_of(rules));
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) return {{"type", "boolean"}};
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) return string_schema(rules);
  return number_schema(field);
}

Json field_schema(const FieldDescriptor& field, Types& used) {
  const FieldRule& rules = rule_of(field);
  Json schema = value_schema(field, used);
  if (!rules.default_().empty()) {
    const bool text = schema.value("type", "") == "string";
    schema["default"] = text ? Json(rules.default_()) : Json::parse(rules.default_());
  }
  if (!field.is_repeated()) return schema;
  Json list = {{"type", "array"}, {"items", std::move(schema)}};
  if (rules.min_items() > 0) list["minItems"] = rules.min_items();
  if (rules.max_items() > 0) list["maxItems"] = rules.max_items();
  return list;
}

Json object_schema(const Descriptor& type, Types& used) {
  Json schema = {{"type", "object"},
                 {"additionalProperties", false},
                 {"properties", Json::object()}};
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    schema["properties"][field.name()] = field_schema(field, used);
    if (rule_of(field).required()) schema["required"].push_back(field.name());
  }
  return schema;
}

}  // namespace

Json json_schema(const Descriptor& type) {
  Json root = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
               {"title", type.name()}};
  Types used;
  root.update(object_schema(type, used));
  std::map<std::string, Json> definitions;
  while (definitions.size() < 2 * used.size()) {
    const Types known = used;
    for (const auto& [name, inner] : known) {
      Json schema = object_schema(*inner, used);
      definitions[name] = schema;
      schema.erase("required");
      definitions[name + "_partial"] = std::move(schema);
    }
  }
  for (const auto& [name, schema] : definitions) root["$defs"][name] = schema;
  return root;
}

}  // namespace orrery
