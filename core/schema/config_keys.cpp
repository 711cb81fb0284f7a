#include "core/schema/config_keys.hpp"

#include <charconv>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"

namespace orrery {
namespace {

/// Returns the whole number of a text, also of one that is written "4096.0"; nothing for any other
/// text or a number above `most`.
std::optional<std::uint32_t> whole(std::string_view text, std::uint32_t most) {
  if (text.ends_with(".0")) text.remove_suffix(2);
  std::uint32_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || value > most) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

void ConfigText::throw_error(int line, int column, const std::string& message) const {
  throw Error(place_in(text, file, line, column), message);
}

ConfigKeys::ConfigKeys(const ConfigText& text, const YamlNode& node, std::string what)
    : text_(text), node_(node), what_(std::move(what)) {
  if (node.kind != YamlNode::Kind::map) {
    text_.throw_error(node.line, node.column, fmt::format("expected {} as a map of keys", what_));
  }
  std::set<std::string_view> seen;
  for (const YamlKey& key : node.keys) {
    if (seen.insert(key.name).second) continue;
    text_.throw_error(key.line, key.column,
                      fmt::format("expected the key '{}' once, found it twice", shown(key.name)));
  }
}

const YamlNode* ConfigKeys::find(std::string_view key) const {
  for (std::size_t i = 0; i < node_.keys.size(); ++i) {
    if (node_.keys[i].name != key) continue;
    return node_.items[i].kind == YamlNode::Kind::null ? nullptr : &node_.items[i];
  }
  return nullptr;
}

std::optional<std::uint32_t> ConfigKeys::count(Names names, std::uint32_t most) const {
  for (const std::string_view name : names) {
    const YamlNode* const node = find(name);
    if (node == nullptr) continue;
    if (node->kind == YamlNode::Kind::scalar) {
      if (const auto value = whole(node->text, most)) return value;
    }
    throw_error(name, fmt::format("expected a whole number up to {} for '{}'", most, name));
  }
  return std::nullopt;
}

std::uint32_t ConfigKeys::required(Names names, std::uint32_t most) const {
  const auto value = count(names, most);
  if (!value) {
    text_.throw_error(
        node_.line, node_.column,
        fmt::format("expected the key '{}' in {}, found none", fmt::join(names, "' or '"), what_));
  }
  if (*value == 0) {
    for (const std::string_view name : names) {
      if (has(name)) throw_error(name, fmt::format("expected at least 1 for '{}'", name));
    }
  }
  return *value;
}

bool ConfigKeys::is_true(std::string_view key, bool usual) const {
  const YamlNode* const node = key.empty() ? nullptr : find(key);
  if (node == nullptr) return usual;
  if (node->text == "true" || node->text == "True") return true;
  if (node->text == "false" || node->text == "False") return false;
  throw_error(key, fmt::format("expected true or false for '{}'", key));
}

std::string ConfigKeys::word(std::string_view key) const {
  const YamlNode* const node = find(key);
  if (node == nullptr) return {};
  if (node->kind != YamlNode::Kind::scalar) {
    throw_error(key, fmt::format("expected a text for '{}'", key));
  }
  return node->text;
}

std::vector<std::string> ConfigKeys::words(std::string_view key) const {
  const YamlNode* const node = find(key);
  if (node == nullptr) return {};
  std::vector<std::string> out;
  if (node->kind != YamlNode::Kind::sequence) {
    throw_error(key, fmt::format("expected a list for '{}'", key));
  }
  for (const YamlNode& item : node->items) {
    if (item.kind != YamlNode::Kind::scalar) {
      throw_error(key, fmt::format("expected a list of texts or numbers for '{}'", key));
    }
    out.push_back(item.text);
  }
  return out;
}

void ConfigKeys::throw_error(std::string_view key, const std::string& message) const {
  for (const YamlKey& each : node_.keys) {
    if (each.name == key) text_.throw_error(each.line, each.column, message);
  }
  text_.throw_error(node_.line, node_.column, message);
}

}  // namespace orrery
