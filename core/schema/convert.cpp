#include "core/schema/convert.hpp"

#include <map>
#include <memory>

#include <fmt/format.h>
#include <google/protobuf/any.pb.h>

#include "core/schema/field_rules.hpp"
#include "core/schema/moved_keys.hpp"

namespace orrery {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;

std::vector<std::string> keys_of(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) {
    if (!rule_of(*type.field(i)).internal()) names.push_back(type.field(i)->name());
  }
  return names;
}

// Returns the only key with a part that is nearly `name`; "" if several keys have such a part. For
// example, "bandwith" gives "nic_bandwidth".
std::string key_with_part(std::string_view name, const std::vector<std::string>& keys) {
  std::string found;
  for (const std::string& key : keys) {
    for (std::size_t at = key.find('_'); at != std::string::npos; at = key.find('_', at + 1)) {
      const std::vector<std::string> halves = {key.substr(0, at), key.substr(at + 1)};
      if (nearest_name(name, halves).empty()) continue;
      if (!found.empty() && found != key) return {};
      found = key;
    }
  }
  return found;
}

const char* kind_name(YamlNode::Kind kind) {
  switch (kind) {
    case YamlNode::Kind::null: return "nothing";
    case YamlNode::Kind::scalar: return "a single value";
    case YamlNode::Kind::sequence: return "a list";
    case YamlNode::Kind::map: return "a map (key: value)";
  }
  return "";
}

std::string last_name(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  if (path.empty()) return "the file";
  return fmt::format("'{}'", path.substr(dot == std::string::npos ? 0 : dot + 1));
}

}  // namespace

std::string join_path(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : fmt::format("{}.{}", path, name);
}

std::string key_hint(std::string_view name, const Descriptor& type) {
  const std::vector<std::string> keys = keys_of(type);
  if (keys.empty()) return "; it takes no keys";
  const std::string hint = did_you_mean(name, keys);
  if (!hint.empty()) return hint;
  const std::string with_part = key_with_part(name, keys);
  if (!with_part.empty()) return fmt::format("; did you mean '{}'?", with_part);
  const std::vector<std::string> moved = keys_moved_from(type.full_name());
  const std::string_view at_top = nearest_name(name, moved);
  if (!at_top.empty()) return fmt::format("; did you mean '{}' at the top of the file?", at_top);
  return fmt::format("; known here: {}", fmt::join(keys, ", "));
}

void Converter::report(int line, int column, const std::string& message) {
  problems_.add(Error(place_in(text_, file_, line, column), message));
}

bool Converter::expect_kind(const YamlNode& node, YamlNode::Kind kind, const std::string& name) {
  if (node.kind == kind) return true;
  if (node.kind == YamlNode::Kind::null) {
    report(node.line, node.column,
           name + " has no value; leave the key out for its default, or write a value");
  } else {
    report(node.line, node.column,
           fmt::format("{} must be {}, not {}", name, kind_name(kind), kind_name(node.kind)));
  }
  return false;
}

void Converter::report_unknown(const YamlKey& key, const Descriptor& type,
                               const std::string& path) {
  report(key.line, key.column,
         fmt::format("unknown key '{}'{}{}", shown(key.name), path.empty() ? "" : " in " + path,
                     key_hint(key.name, type)));
}

void Converter::report_missing(const YamlNode& node, const Descriptor& type,
                               const std::string& path) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (!rule_of(field).required()) continue;
    bool written = false;
    for (const YamlKey& key : node.keys) {
      written = written || key.name == field.name() || key.name == rule_of(field).unless();
    }
    if (written) continue;
    report(node.line, node.column,
           fmt::format("missing key '{}'{}", field.name(), path.empty() ? "" : " in " + path));
  }
}

void Converter::check_choice(const YamlNode& node, const OneofDescriptor& choice_of,
                             const std::string& path, bool partial) {
  const std::string in = path.empty() ? "" : " in " + path;
  const YamlKey* first = nullptr;
  for (const YamlKey& key : node.keys) {
    const FieldDescriptor* field = choice_of.containing_type()->FindFieldByName(key.name);
    if (field == nullptr || field->real_containing_oneof() != &choice_of) continue;
    if (first == nullptr) {
      first = &key;
    } else if (key.name != first->name) {
      report(key.line, key.column,
             fmt::format("expected exactly one of {}{}, got '{}' beside '{}' of line {}: leave one "
                         "of them out",
                         choices_of(choice_of), in, key.name, first->name, first->line));
    }
  }
  if (first != nullptr || partial || !is_required(choice_of)) return;
  report(node.line, node.column,
         fmt::format("expected exactly one of {}{}, got none: add one", choices_of(choice_of), in));
}

void Converter::fill_message(const YamlNode& node, Message& message, const std::string& path,
                             bool partial) {
  if (!expect_kind(node, YamlNode::Kind::map, last_name(path))) return;
  const Descriptor& type = *message.GetDescriptor();
  std::map<std::string_view, int> first_line;
  std::vector<std::size_t> parameters;  // last, because the name determines their type
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const YamlKey& key = node.keys[i];
    const auto [first, fresh] = first_line.emplace(key.name, key.line);
    const FieldDescriptor* field = type.FindFieldByName(key.name);
    if (!fresh) {
      report(key.line, key.column, fmt::format("duplicate key '{}': it is on line {} already",
                                               shown(key.name), first->second));
    } else if (field == nullptr || rule_of(*field).internal()) {
      report_unknown(key, type, path);
    } else if (is_any(*field)) {
      parameters.push_back(i);
    } else {
      fill_field(node.items[i], message, *field, join_path(path, key.name));
    }
  }
  for (const std::size_t i : parameters) {
    const std::string& name = node.keys[i].name;
    fill_parameters(node.items[i], message, *type.FindFieldByName(name), join_path(path, name));
  }
  for (int i = 0; i < type.real_oneof_decl_count(); ++i) {
    check_choice(node, *type.oneof_decl(i), path, partial);
  }
  if (!partial) report_missing(node, type, path);
}

void Converter::fill_field(const YamlNode& node, Message& message, const FieldDescriptor& field,
                           const std::string& path) {
  places_.add(path, node.line, node.column);
  if (field.is_repeated()) {
    fill_list(node, message, field, path);
  } else if (is_any(field)) {
    fill_parameters(node, message, field, path);
  } else {
    fill_item(node, message, field, path);
  }
}

void Converter::fill_list(const YamlNode& node, Message& message, const FieldDescriptor& field,
                          const std::string& path) {
  if (!expect_kind(node, YamlNode::Kind::sequence, last_name(path))) return;
  const FieldRule& rules = rule_of(field);
  const std::size_t count = node.items.size();
  if (count < rules.min_items() || (rules.max_items() > 0 && count > rules.max_items())) {
    const bool few = count < rules.min_items();
    return report(node.line, node.column,
                  fmt::format("'{}' must have at {} {} entries, not {}", field.name(),
                              few ? "least" : "most", few ? rules.min_items() : rules.max_items(),
                              count));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const YamlNode& item = node.items[i];
    const std::string item_path = fmt::format("{}[{}]", path, i);
    places_.add(item_path, item.line, item.column);
    fill_item(item, message, field, item_path);
  }
}

void Converter::fill_item(const YamlNode& node, Message& message, const FieldDescriptor& field,
                          const std::string& path) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    const auto& reflection = *message.GetReflection();
    Message* inner = field.is_repeated() ? reflection.AddMessage(&message, &field)
                                         : reflection.MutableMessage(&message, &field);
    return fill_message(node, *inner, path, rule_of(field).partial());
  }
  if (!expect_kind(node, YamlNode::Kind::scalar, last_name(path))) return;
  const std::string problem = put_scalar(message, field, node.text, node.plain);
  if (!problem.empty()) report(node.line, node.column, problem);
}

void Converter::fill_parameters(const YamlNode& node, Message& message,
                                const FieldDescriptor& field, const std::string& path) {
  places_.add(path, node.line, node.column);
  const FieldDescriptor* name_field = message.GetDescriptor()->FindFieldByName("name");
  ensure(name_field != nullptr, "a message with parameters has a name");
  const std::string name = message.GetReflection()->GetString(message, name_field);
  if (name.empty()) return;  // a missing or invalid name has been reported
  const Descriptor* type = parameters_type(message);
  if (type == nullptr) {
    return report(node.line, node.column,
                  fmt::format("no parameters are known for '{}'; is the name right?", shown(name)));
  }
  const std::unique_ptr<Message> parameters(new_message(*type));
  fill_message(node, *parameters, path, false);
  auto* any = dynamic_cast<google::protobuf::Any*>(
      message.GetReflection()->MutableMessage(&message, &field));
  ensure(any != nullptr && any->PackFrom(*parameters), "parameters fit their field");
}

}  // namespace orrery
