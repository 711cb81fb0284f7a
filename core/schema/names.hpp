// Names of the values of enums, as files, logs, reports and messages to users write them. Each enum
// has one table of names, a function names_of() beside the enum. Called by loaders and writers,
// which convert at their border, so that all other code compares values. Pure functions;
// thread-safe. For example, an enum with the values apple and pear has the table
//
//   constexpr std::array<std::string_view, 2> names_of(Fruit) { return {"apple", "pear"}; }
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/error.hpp"

namespace orrery {

/// Enum whose namespace has a function names_of(Enum), which returns the array of the names in the
/// order of the values; the argument selects the enum and is not read.
template <class Enum>
concept Named = std::is_enum_v<Enum> && requires(Enum value) {
  names_of(value).size();
};

/// Returns the name of a value of the enum.
template <Named Enum>
constexpr std::string_view name_of(Enum value) {
  return names_of(value).at(static_cast<std::size_t>(value));
}

/// Returns the names of all values, in the order of the values.
template <Named Enum>
std::vector<std::string> all_names() {
  const auto names = names_of(Enum{});
  return {names.begin(), names.end()};
}

/// Returns the value with this name; nothing if no value has the name.
template <Named Enum>
constexpr std::optional<Enum> find_named(std::string_view name) {
  const auto names = names_of(Enum{});
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

/// Returns the value with this name, and `absent` for an empty name, which is the name of an absent
/// key. Throws bad_input with the nearest name if no value has the name.
template <Named Enum>
Enum named(std::string_view name, std::optional<Enum> absent = {}) {
  if (name.empty() && absent) return *absent;
  if (const std::optional<Enum> found = find_named<Enum>(name)) return *found;
  const std::vector<std::string> known = all_names<Enum>();
  std::string message = "expected one of ";
  for (const std::string& each : known) message += each + ", ";
  message.append("found '").append(name).append("'").append(did_you_mean(name, known));
  throw Error(ErrorKind::bad_input, message);
}

}  // namespace orrery
