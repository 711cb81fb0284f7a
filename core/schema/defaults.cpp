// Steps after the text has been read: defaults and completeness.
#include <memory>

#include <fmt/format.h>
#include <google/protobuf/any.pb.h>

#include "core/schema/convert.hpp"
#include "core/schema/field_rules.hpp"

namespace orrery {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

bool all_defaults(const Descriptor& type, int depth = 0) {
  if (type.field_count() == 0 || depth > 20) return false;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const bool nested = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    const bool has_default = nested ? all_defaults(*field.message_type(), depth + 1)
                                    : !rule_of(field).default_().empty();
    const bool chosen = field.real_containing_oneof() != nullptr;
    if (field.is_repeated() || chosen || !has_default) return false;
  }
  return true;
}

void fill_any(Message& message, const FieldDescriptor& field) {
  const Descriptor* type = parameters_type(message);
  if (type == nullptr) return;
  const std::unique_ptr<Message> parameters(new_message(*type));
  auto* any = dynamic_cast<google::protobuf::Any*>(
      message.GetReflection()->MutableMessage(&message, &field));
  ensure(any != nullptr, "parameters are generated messages");
  any->UnpackTo(parameters.get());  // another type's parameters are replaced by the defaults
  fill_defaults(*parameters);
  any->PackFrom(*parameters);
}

void fill_nested(Message& message, const FieldDescriptor& field) {
  const auto& reflection = *message.GetReflection();
  if (field.is_repeated()) {
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
      fill_defaults(*reflection.MutableRepeatedMessage(&message, &field, i));
    }
  } else if (is_any(field)) {
    fill_any(message, field);
  } else if (is_present(message, field) ||
             (field.real_containing_oneof() == nullptr && all_defaults(*field.message_type()))) {
    fill_defaults(*reflection.MutableMessage(&message, &field));
  }
}

/// Returns true if the message has a key of this name, and the key is present.
bool has_key(const Message& message, const std::string& name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  return field != nullptr && is_present(message, *field);
}

}  // namespace

void fill_defaults(Message& message) {
  const Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      fill_nested(message, field);
    } else if (!rule_of(field).default_().empty() && !is_present(message, field)) {
      ensure(field.has_presence(), "a field with a default is optional");
      const std::string problem = put_scalar(message, field, rule_of(field).default_(), true);
      ensure(problem.empty(), problem);
    }
  }
}

void check_whole(const Message& message, const SourceMap& places, const std::string& path) {
  const auto& reflection = *message.GetReflection();
  const Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.real_oneof_decl_count(); ++i) {
    const auto& choice_of = *type.oneof_decl(i);
    if (!is_required(choice_of) || reflection.HasOneof(message, &choice_of)) continue;
    throw problem_at(places, path, fmt::format("expected exactly one of {} in {}, got none",
                                               choices_of(choice_of), path));
  }
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (rule_of(field).required() && !is_present(message, field) &&
        !has_key(message, rule_of(field).unless())) {
      throw problem_at(places, path, fmt::format("missing key '{}' in {}", field.name(), path));
    }
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || is_any(field)) continue;
    const std::string inner = join_path(path, field.name());
    if (field.is_repeated()) {
      for (int k = 0; k < reflection.FieldSize(message, &field); ++k) {
        check_whole(reflection.GetRepeatedMessage(message, &field, k), places,
                    fmt::format("{}[{}]", inner, k));
      }
    } else if (is_present(message, field)) {
      check_whole(reflection.GetMessage(message, &field), places, inner);
    }
  }
}

}  // namespace orrery
