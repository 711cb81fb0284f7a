#include "core/schema/yaml_loader.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "core/schema/convert.hpp"
#include "core/schema/format_conversion.hpp"
#include "core/schema/yaml_tree.hpp"

namespace orrery {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

SourceMap load(std::string_view text, const std::string& file, google::protobuf::Message& message,
               Problems& problems) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  message.Clear();
  try {
    YamlNode root = parse_yaml_tree(text, file);
    convert_tree(root, message.GetDescriptor()->full_name(), text, file);
    SourceMap places(file, std::string(text));
    places.add("", root.line, root.column);
    if (root.kind == YamlNode::Kind::null) {
      problems.add(Error(place_in(text, file, 1, 1), "the file is empty"));
      return places;
    }
    Converter(text, file, problems, places).fill_message(root, message, "", false);
    return places;
  } catch (const Error& problem) {
    if (problem.kind() != ErrorKind::bad_input) throw;
    problems.add(problem);
    return {};
  }
}

// Reads at most one byte more than allowed, independently of the size that the file reports.
std::string read_file(const std::string& path) {
  const auto fail = [&](const std::string& why) {
    return Error(SourcePlace{path, 1, 1, {}}, "cannot be read: " + why);
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (!file) throw fail(std::strerror(errno));
  std::string text;
  std::string chunk(1u << 16, '\0');
  while (text.size() <= kMaxYamlBytes) {
    const std::size_t count = std::fread(chunk.data(), 1, chunk.size(), file.get());
    text.append(chunk, 0, count);
    if (count < chunk.size()) break;
  }
  if (std::ferror(file.get()) != 0) throw fail(std::strerror(errno));
  return text;
}

}  // namespace

void SourceMap::add(std::string path, int line, int column) {
  places_.insert_or_assign(std::move(path), std::pair(line, column));
}

void SourceMap::add_override(std::string_view path, const std::string& line, std::string origin) {
  overrides_.insert_or_assign(std::string(path), place_in(line, std::move(origin), 1,
                                                          static_cast<int>(line.find('=')) + 2));
}

SourcePlace SourceMap::place_of(std::string_view path) const {
  while (true) {
    const auto overridden = overrides_.find(path);
    if (overridden != overrides_.end()) return overridden->second;
    const auto found = places_.find(path);
    if (found != places_.end()) {
      return place_in(text_, file_, found->second.first, found->second.second);
    }
    if (path.empty()) return place_in(text_, file_, 1, 1);
    const std::size_t cut = path.find_last_of(".[");
    path = path.substr(0, cut == std::string_view::npos ? 0 : cut);
  }
}

Error problem_at(const SourceMap& places, std::string_view path, const std::string& message) {
  if (!places.empty()) return Error(places.place_of(path), message);
  return Error(ErrorKind::bad_input,
               path.empty() ? message : fmt::format("{}: {}", path, message));
}

Error with_place(const Error& error, const SourceMap& places) {
  const std::string& message = error.message();
  const std::size_t end = message.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.[]");
  const bool named = end != 0 && end != std::string::npos && message.substr(end, 2) == ": ";
  const bool placeless = error.kind() == ErrorKind::bad_input && !error.source_place();
  if (!named || !placeless || places.empty()) return error;
  return Error(places.place_of(message.substr(0, end)), message);
}

SourceMap load_yaml(std::string_view text, const std::string& file,
                    google::protobuf::Message& message) {
  Problems problems(1);
  try {
    return load(text, file, message, problems);
  } catch (const Problems::Full&) {
    throw problems.found().front();
  }
}

SourceMap load_yaml_file(const std::string& path, google::protobuf::Message& message) {
  return load_yaml(read_file(path), path, message);
}

std::vector<Error> check_yaml(std::string_view text, const std::string& file,
                              google::protobuf::Message& message, std::size_t limit) {
  Problems problems(limit);
  try {
    load(text, file, message, problems);
  } catch (const Problems::Full&) {
  }
  return problems.found();
}

}  // namespace orrery
