// Typed access to the keys of one map of a configuration file, with the place of every problem.
// Used by the readers of model and cluster files. Thread-safe; refers to the tree that it reads,
// which must outlive it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/schema/yaml_tree.hpp"

namespace orrery {

/// Text of a file and its name for messages. Both must outlive the objects that refer to them.
struct ConfigText {
  std::string_view text;
  const std::string& file;

  /// Throws bad_input at a line and column of the text, from 1.
  [[noreturn]] void throw_error(int line, int column, const std::string& message) const;
};

/// Keys of one map. A key whose value is null counts as absent. A list of names means aliases: the
/// first one that the map has is read.
class ConfigKeys {
 public:
  using Names = std::initializer_list<std::string_view>;

  /// Throws bad_input if `node` is not a map or has a key twice; `what` names the map in messages.
  ConfigKeys(const ConfigText& text, const YamlNode& node, std::string what);

  /// Returns the value of a key; nullptr if the key is absent.
  const YamlNode* find(std::string_view key) const;
  /// Returns true if the key is present.
  bool has(std::string_view key) const { return find(key) != nullptr; }
  /// Returns a whole number from 0 to `most`; nothing if all names are absent. Throws bad_input at
  /// any other value.
  std::optional<std::uint32_t> count(Names names, std::uint32_t most) const;
  /// Returns a whole number from 1 to `most`. Throws bad_input if all names are absent, too.
  std::uint32_t required(Names names, std::uint32_t most) const;
  /// Returns a truth value, `usual` if the key is absent. Throws bad_input at any other value.
  bool is_true(std::string_view key, bool usual) const;
  /// Returns the text of a scalar; empty if the key is absent. Throws bad_input at a list or map.
  std::string word(std::string_view key) const;
  /// Returns the texts of a list of scalars; empty if the key is absent. Throws bad_input at any
  /// other value.
  std::vector<std::string> words(std::string_view key) const;

  /// Throws bad_input at the key, or at the map if the key is absent.
  [[noreturn]] void throw_error(std::string_view key, const std::string& message) const;

 private:
  const ConfigText& text_;
  const YamlNode& node_;
  const std::string what_;
};

}  // namespace orrery
