// Change of one value by its path, for --set and keyword overrides.
#include <charconv>
#include <memory>

#include <fmt/format.h>
#include <google/protobuf/any.pb.h>

#include "core/schema/convert.hpp"
#include "core/schema/field_rules.hpp"
#include "core/schema/moved_keys.hpp"

namespace orrery {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

/// Override "path=text" of a message. The places in its errors are columns of this line.
class Override {
 public:
  Override(Message& root, std::string_view path, std::string_view text, const std::string& origin)
      : root_(root),
        path_(present_path(root.GetDescriptor()->full_name(), path)),
        text_(text),
        origin_(origin),
        line_(fmt::format("{}={}", path, text)),
        moved_by_(path.size() - path_.size()) {}

  void apply() { apply(root_, 0); }

 private:
  void apply(Message& message, std::size_t at) {
    const std::size_t end = std::min(path_.find_first_of(".[", at), path_.size());
    const std::string_view name = path_.substr(at, end - at);
    const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(std::string(name));
    if (field == nullptr || rule_of(*field).internal()) {
      throw error(at, fmt::format("unknown key '{}'{}", shown(name),
                                  key_hint(name, *message.GetDescriptor())));
    }
    if (end < path_.size() && path_[end] == '[') return apply_item(message, *field, end);
    if (end == path_.size()) return put(message, *field);
    if (is_any(*field)) return apply_parameters(message, *field, end + 1);
    if (field->is_repeated()) {
      throw error(end, fmt::format("'{0}' is a list: say which entry, as in {0}[0]", name));
    }
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      throw error(end, fmt::format("'{}' is a single value and has no keys", name));
    }
    apply(*message.GetReflection()->MutableMessage(&message, field), end + 1);
  }

  /// Returns an error at an offset of the present path.
  Error error(std::size_t at, const std::string& message) const {
    return Error(place_in(line_, origin_, 1, static_cast<int>(at + moved_by_) + 1), message);
  }

  void apply_item(Message& message, const FieldDescriptor& field, std::size_t bracket) {
    if (!field.is_repeated() || field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      throw error(bracket, fmt::format("'{}' is not a list of maps", field.name()));
    }
    const std::size_t close = std::min(path_.find(']', bracket), path_.size());
    int index = -1;
    const char* const last = path_.data() + close;
    const auto [rest, status] = std::from_chars(path_.data() + bracket + 1, last, index);
    const int size = message.GetReflection()->FieldSize(message, &field);
    if (status != std::errc() || rest != last || index < 0 || index >= size) {
      throw error(bracket, fmt::format("'{}' has {} entries, counted from 0", field.name(), size));
    }
    if (close + 1 >= path_.size() || path_[close + 1] != '.') {
      throw error(std::min(close, path_.size() - 1), "a key of the entry must follow: [0].key");
    }
    apply(*message.GetReflection()->MutableRepeatedMessage(&message, &field, index), close + 2);
  }

  void apply_parameters(Message& message, const FieldDescriptor& field, std::size_t at) {
    const auto* type = parameters_type(message);
    if (type == nullptr) throw error(at, "no parameters are known for this name");
    const std::unique_ptr<Message> parameters(new_message(*type));
    auto* any = dynamic_cast<google::protobuf::Any*>(
        message.GetReflection()->MutableMessage(&message, &field));
    ensure(any != nullptr, "parameters are generated messages");
    any->UnpackTo(parameters.get());
    apply(*parameters, at);
    any->PackFrom(*parameters);
  }

  // The text of a single value is not YAML; the text of a list or a map is.
  void put(Message& message, const FieldDescriptor& field) {
    const std::size_t at = path_.size() + 1;
    const std::size_t bad = first_bad_byte(line_);
    if (bad != std::string_view::npos) throw error(bad - moved_by_, "holds a control character");
    if (!field.is_repeated() && field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      const std::string problem = put_scalar(message, field, text_, true);
      if (!problem.empty()) throw error(at, problem);
      return;
    }
    message.GetReflection()->ClearField(&message, &field);
    Problems problems(1);
    SourceMap places;
    try {
      YamlNode node = parse_yaml_tree(text_, origin_);
      Converter converter(text_, origin_, problems, places);
      for (const YamlEntry& moved :
           take_moved_keys(node, root_.GetDescriptor()->full_name(), path_)) {
        const FieldDescriptor& top = *root_.GetDescriptor()->FindFieldByName(moved.key.name);
        root_.GetReflection()->ClearField(&root_, &top);
        converter.fill_field(moved.value, root_, top, moved.key.name);
      }
      converter.fill_field(node, message, field, std::string(path_));
    } catch (const Problems::Full&) {
      throw problems.found().front();
    }
  }

  Message& root_;
  std::string_view path_;  ///< present path, the end of the written one
  std::string_view text_;
  const std::string& origin_;
  std::string line_;
  std::size_t moved_by_;  ///< characters before the present path
};

}  // namespace

void set_field(Message& message, std::string_view path, std::string_view text,
               const std::string& origin) {
  Override(message, path, text, origin).apply();
}

}  // namespace orrery
