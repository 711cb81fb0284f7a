#include "core/schema/comments.hpp"

#include <sstream>

#include <google/protobuf/descriptor.pb.h>

#include "core/error.hpp"

namespace orrery {
namespace {

using google::protobuf::DescriptorProto;
using google::protobuf::FileDescriptorProto;
using Location = google::protobuf::SourceCodeInfo::Location;

/// Returns the words of `text` with one space between them.
std::string in_one_line(const std::string& text) {
  std::istringstream words(text);
  std::string out;
  for (std::string word; words >> word;) out += (out.empty() ? "" : " ") + word;
  return out;
}

/// Returns the full name of the message or field at `location`; empty for any other element.
std::string name_at(const FileDescriptorProto& file, const Location& location) {
  std::string name = file.package();
  const DescriptorProto* type = nullptr;
  for (int i = 0; i + 1 < location.path_size(); i += 2) {
    const int what = location.path(i), index = location.path(i + 1);
    if (type == nullptr && what == FileDescriptorProto::kMessageTypeFieldNumber) {
      type = &file.message_type(index);
    } else if (type != nullptr && what == DescriptorProto::kNestedTypeFieldNumber) {
      type = &type->nested_type(index);
    } else if (type != nullptr && what == DescriptorProto::kFieldFieldNumber &&
               i + 2 == location.path_size()) {
      return name + "." + type->field(index).name();
    } else {
      return {};
    }
    name += "." + type->name();
  }
  return type == nullptr || location.path_size() % 2 != 0 ? std::string() : name;
}

}  // namespace

SchemaComments::SchemaComments(std::string_view descriptor_set) {
  google::protobuf::FileDescriptorSet files;
  ensure(files.ParseFromArray(descriptor_set.data(), static_cast<int>(descriptor_set.size())),
         "the embedded descriptor set can be parsed");
  for (const FileDescriptorProto& file : files.file()) {
    for (const Location& location : file.source_code_info().location()) {
      const std::string name = name_at(file, location);
      if (name.empty()) continue;
      by_name_[name] =
          in_one_line(location.leading_comments() + " " + location.trailing_comments());
    }
  }
}

std::string SchemaComments::of(const google::protobuf::FieldDescriptor& field) const {
  const auto found = by_name_.find(field.full_name());
  return found == by_name_.end() ? std::string() : found->second;
}

std::string SchemaComments::of(const google::protobuf::Descriptor& type) const {
  const auto found = by_name_.find(type.full_name());
  return found == by_name_.end() ? std::string() : found->second;
}

}  // namespace orrery
