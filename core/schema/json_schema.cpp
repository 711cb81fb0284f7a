// JSON Schema of the YAML form of a message type, from the same rules that the loader enforces.
#include <cstdint>
#include <map>
#include <string>

#include <fmt/format.h>

#include "core/schema/field_rules.hpp"
#include "core/schema/file_format.hpp"
#include "core/schema/json.hpp"

namespace orrery {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::OneofDescriptor;
using Json = nlohmann::ordered_json;
using Types = std::map<std::string, const Descriptor*>;  // keyed by name

Json number_schema(const FieldDescriptor& field) {
  const FieldRule& rules = rule_of(field);
  const bool whole = field.cpp_type() != FieldDescriptor::CPPTYPE_DOUBLE;
  const auto bound = [&](double value) {
    return whole ? Json(static_cast<std::int64_t>(value)) : Json(value);
  };
  Json schema = {{"type", whole ? "integer" : "number"}, {"minimum", bound(range_of(field).low)}};
  if (rules.has_max()) schema["maximum"] = bound(rules.max());
  if (takes_suffix(field)) {
    schema["type"] = Json::array({"integer", "string"});
    schema["pattern"] = R"(^(0|[1-9][0-9]*)(\.[0-9]+)?[kMBT]$)";
    schema["examples"] = Json::array({"10k", "2T"});
  }
  return schema;
}

Json quantity_schema(Dimension dimension) {
  const std::string example(example_of(dimension));
  return {{"type", "string"},
          {"pattern", R"(^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)? ?[A-Za-z/%]+$)"},
          {"examples", Json::array({example})},
          {"description", fmt::format("a quantity with its unit, for example {}", example)}};
}

/// Returns the name of a type in the schema: "OuterInner" for nested types, whose own names may be
/// equal.
std::string name_of(const Descriptor& type) {
  const Descriptor* const outer = type.containing_type();
  return (outer == nullptr ? std::string() : name_of(*outer)) + type.name();
}

/// Returns the schema of a oneof: exactly one of its keys, or also none if no key is required.
Json choice_schema(const OneofDescriptor& choice_of, bool partial) {
  Json each = Json::array();
  for (int i = 0; i < choice_of.field_count(); ++i) {
    each.push_back({{"required", Json::array({choice_of.field(i)->name()})}});
  }
  Json schema = {{"oneOf", each}};
  if (partial || !is_required(choice_of)) {
    schema["oneOf"].push_back({{"not", {{"anyOf", std::move(each)}}}});
  }
  return schema;
}

/// Builder of the schemas of message types, with their comments.
class Schemas {
 public:
  explicit Schemas(const SchemaNotes& notes) : notes_(notes) {}

  /// Returns the schema of a message. `partial`: required keys may be absent.
  Json object(const Descriptor& type, bool partial) {
    Json schema = {{"type", "object"},
                   {"additionalProperties", false},
                   {"properties", Json::object()}};
    describe(schema, notes_.comments.of(type));
    std::map<std::string, Json> unless;  // keys that are required without another key
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      const FieldRule& rules = rule_of(field);
      if (rules.internal()) continue;
      schema["properties"][field.name()] = of_field(field);
      if (rules.required() && !partial) {
        (rules.unless().empty() ? schema["required"] : unless[rules.unless()])
            .push_back(field.name());
      }
      if (is_any(field)) add_parameters(schema, field);
    }
    for (const auto& [other, keys] : unless) {
      schema["allOf"].push_back(
          {{"anyOf", {{{"required", Json::array({other})}}, {{"required", keys}}}}});
    }
    for (int i = 0; i < type.real_oneof_decl_count(); ++i) {
      schema["allOf"].push_back(choice_schema(*type.oneof_decl(i), partial));
    }
    return schema;
  }

  const Types& used() const { return used_; }

 private:
  Json text(const FieldDescriptor& field) const {
    const FieldRule& rules = rule_of(field);
    Json schema = {{"type", "string"}};
    if (rules.required()) schema["minLength"] = 1;
    for (const std::string& word : allowed_words(field)) schema["enum"].push_back(word);
    const auto known = notes_.known.find(field.full_name());
    if (known != notes_.known.end()) schema["examples"] = known->second;
    return schema;
  }

  Json reference(const Descriptor& type, bool partial) {
    const std::string name = name_of(type);
    used_.emplace(name, &type);
    return {{"$ref", fmt::format("#/$defs/{}{}", name, partial ? "_partial" : "")}};
  }

  Json value(const FieldDescriptor& field) {
    const FieldRule& rules = rule_of(field);
    if (is_any(field)) {
      return {{"type", "object"}, {"description", "parameters of the type that 'name' selects"}};
    }
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      return reference(*field.message_type(), rules.partial());
    }
    if (rules.unit() != UNITLESS) return quantity_schema(dimension_of(rules));
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
      if (field.real_containing_oneof() != nullptr) return {{"const", true}};
      return {{"type", "boolean"}};
    }
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) return text(field);
    return number_schema(field);
  }

  Json of_field(const FieldDescriptor& field) {
    const FieldRule& rules = rule_of(field);
    Json schema = value(field);
    if (!rules.default_().empty()) {
      const bool text = schema.contains("type") && schema["type"] == "string";
      schema["default"] = text ? Json(rules.default_()) : Json::parse(rules.default_());
    }
    if (field.is_repeated()) {
      Json list = {{"type", "array"}, {"items", std::move(schema)}};
      if (rules.min_items() > 0) list["minItems"] = rules.min_items();
      if (rules.max_items() > 0) list["maxItems"] = rules.max_items();
      schema = std::move(list);
    }
    describe(schema, notes_.comments.of(field));
    return schema;
  }

  /// Adds a choice of parameters for each value of `name`.
  void add_parameters(Json& schema, const FieldDescriptor& field) {
    if (notes_.parameters.empty()) return;
    for (const auto& [value, type] : notes_.parameters) {
      schema["properties"]["name"]["enum"].push_back(value);
      const Json named = {{"properties", {{"name", {{"const", value}}}}}};
      const Json then = {{"properties", {{field.name(), reference(*type, false)}}}};
      schema["allOf"].push_back({{"if", named}, {"then", then}});
    }
  }

  static void describe(Json& schema, const std::string& comment) {
    if (!comment.empty()) schema["description"] = comment;
  }

  const SchemaNotes& notes_;
  Types used_;  ///< types that references lead to
};

}  // namespace

Json json_schema(const Descriptor& type, const SchemaNotes& notes) {
  Json root = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
               {"title", type.name()}};
  Schemas schemas(notes);
  root.update(schemas.object(type, false));
  if (kind_of_file(type.full_name())) {
    root["properties"][std::string(kFormatKey)] = {
        {"type", "string"},
        {"examples", Json::array({format_text(kFileFormat)})},
        {"description", "Version of this file's format, MAJOR.MINOR (docs/versions.md); without "
                        "the key, the newest."}};
  }
  std::map<std::string, Json> definitions;
  while (definitions.size() < 2 * schemas.used().size()) {
    const Types known = schemas.used();
    for (const auto& [name, inner] : known) {
      definitions[name] = schemas.object(*inner, false);
      definitions[name + "_partial"] = schemas.object(*inner, true);
    }
  }
  for (const auto& [name, schema] : definitions) root["$defs"][name] = schema;
  return root;
}

}  // namespace orrery
