#include "core/schema/file_format.hpp"

#include <charconv>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/yaml_entries.hpp"

namespace orrery {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kKinds{{
    {"orrery.Scenario", "scenario"},
    {"orrery.Topology", "topology"},
    {"orrery.JobReplay", "replay of a job log"},
}};

std::optional<std::uint32_t> whole_number(std::string_view digits) {
  std::uint32_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc{} || stop != end) return {};
  return value;
}

std::optional<FormatVersion> parse_version(std::string_view text) {
  const std::size_t dot = text.find('.');
  if (dot == std::string_view::npos) return {};
  const auto major = whole_number(text.substr(0, dot)), minor = whole_number(text.substr(dot + 1));
  if (!major || !minor) return {};
  return FormatVersion{*major, *minor};
}

}  // namespace

std::string format_text(FormatVersion version) {
  return fmt::format("{}.{}", version.major, version.minor);
}

std::optional<std::string_view> kind_of_file(std::string_view message) {
  for (const auto& [name, kind] : kKinds) {
    if (name == message) return kind;
  }
  return {};
}

std::optional<FormatVersion> stated_format(const YamlNode& root, std::string_view text,
                                           const std::string& file) {
  if (root.kind != YamlNode::Kind::map) return {};
  const auto index = index_of_key(root, kFormatKey);
  if (!index) return {};
  const YamlNode& value = root.items[*index];
  const auto refuse = [&](const std::string& remedy) {
    return Error(
        place_in(text, file, value.line, value.column),
        fmt::format("expected format {} to {}, found '{}'; {}", format_text(kOldestFileFormat),
                    format_text(kFileFormat), shown(value.text), remedy));
  };
  const auto version = parse_version(value.text);
  if (!version) throw refuse("write MAJOR.MINOR, or leave the key out for the newest");
  if (*version > kFileFormat) throw refuse("the file needs a newer orrery");
  if (*version < kOldestFileFormat) throw refuse("no orrery has written this format");
  return version;
}

}  // namespace orrery
