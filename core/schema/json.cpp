#include "core/schema/json.hpp"

#include <cmath>
#include <memory>

#include <google/protobuf/any.pb.h>

#include "core/schema/field_rules.hpp"
#include "core/schema/yaml_loader.hpp"
#include "core/sha256.hpp"

namespace orrery {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// Returns the message inside an Any; null if the Any is empty or its type is not linked in.
Json any_json(const Message& message) {
  const auto* any = dynamic_cast<const google::protobuf::Any*>(&message);
  if (any == nullptr) return nullptr;
  const std::string& url = any->type_url();
  const Descriptor* type = google::protobuf::DescriptorPool::generated_pool()
                               ->FindMessageTypeByName(url.substr(url.rfind('/') + 1));
  if (type == nullptr) return nullptr;
  const std::unique_ptr<Message> inner(new_message(*type));
  return any->UnpackTo(inner.get()) ? to_json(*inner) : Json(nullptr);
}

Json message_json(const Message& message, const FieldDescriptor& field) {
  return is_any(field) ? any_json(message) : to_json(message);
}

Json single_json(const Message& message, const FieldDescriptor& field) {
  const auto& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: return reflection.GetInt32(message, &field);
    case FieldDescriptor::CPPTYPE_INT64: return reflection.GetInt64(message, &field);
    case FieldDescriptor::CPPTYPE_UINT32: return reflection.GetUInt32(message, &field);
    case FieldDescriptor::CPPTYPE_UINT64: return reflection.GetUInt64(message, &field);
    case FieldDescriptor::CPPTYPE_DOUBLE: return number(reflection.GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_FLOAT: return number(reflection.GetFloat(message, &field));
    case FieldDescriptor::CPPTYPE_BOOL: return reflection.GetBool(message, &field);
    case FieldDescriptor::CPPTYPE_ENUM: return reflection.GetEnum(message, &field)->name();
    case FieldDescriptor::CPPTYPE_STRING: return reflection.GetString(message, &field);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return message_json(reflection.GetMessage(message, &field), field);
  }
  return nullptr;
}

Json item_json(const Message& message, const FieldDescriptor& field, int i) {
  const auto& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: return reflection.GetRepeatedInt32(message, &field, i);
    case FieldDescriptor::CPPTYPE_INT64: return reflection.GetRepeatedInt64(message, &field, i);
    case FieldDescriptor::CPPTYPE_UINT32: return reflection.GetRepeatedUInt32(message, &field, i);
    case FieldDescriptor::CPPTYPE_UINT64: return reflection.GetRepeatedUInt64(message, &field, i);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return number(reflection.GetRepeatedDouble(message, &field, i));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return number(reflection.GetRepeatedFloat(message, &field, i));
    case FieldDescriptor::CPPTYPE_BOOL: return reflection.GetRepeatedBool(message, &field, i);
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.GetRepeatedEnum(message, &field, i)->name();
    case FieldDescriptor::CPPTYPE_STRING: return reflection.GetRepeatedString(message, &field, i);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return message_json(reflection.GetRepeatedMessage(message, &field, i), field);
  }
  return nullptr;
}

}  // namespace

Json to_json(const Message& message) {
  Json object = Json::object();
  const Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const bool chosen = field.real_containing_oneof() == nullptr || is_present(message, field);
    if (!chosen) continue;
    Json& value = object[field.name()];
    if (field.is_repeated()) {
      value = Json::array();
      const int size = message.GetReflection()->FieldSize(message, &field);
      for (int k = 0; k < size; ++k) value.push_back(item_json(message, field, k));
    } else if (!field.has_presence() || is_present(message, field)) {
      value = single_json(message, field);
    }
  }
  return object;
}

std::string canonical_hash(const Message& message) {
  const std::unique_ptr<Message> whole(message.New());
  whole->CopyFrom(message);
  fill_defaults(*whole);
  return sha256_hex(to_json(*whole).dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace orrery
