#include "traces/jobs/json_items.hpp"

#include <algorithm>
#include <functional>
#include <iterator>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/yaml_tree.hpp"
#include "traces/jobs/log_time.hpp"

namespace orrery {
namespace {

using Json = nlohmann::json;

/// Iterator over a text that counts lines.
struct CountingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  int* line;

  reference operator*() const { return *at; }
  CountingIterator& operator++() {
    *line += *at == '\n' ? 1 : 0;
    ++at;
    return *this;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) {
    return a.at == b.at;
  }
};

[[noreturn]] void fail_at(const std::string& path, std::string_view text, std::size_t byte,
                          const std::string& message) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const std::size_t begin = before.rfind('\n') + 1;  // npos + 1 is 0
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  throw Error(
      place_in(text, path, static_cast<int>(line), static_cast<int>(before.size() - begin) + 1),
      message);
}

/// Parses the text with a callback, which gets the line of each event too. Throws bad_input with
/// the place if the text is not JSON, or not an array or object as requested.
void parse_json(const std::string& path, std::string_view text, bool array, const std::string& what,
                const std::function<bool(int depth, Json::parse_event_t event, Json& parsed,
                                         int line)>& take) {
  int line = 1;
  try {
    const CountingIterator begin{text.data(), &line}, end{text.data() + text.size(), &line};
    const Json whole =
        Json::parse(begin, end, [&](int at, Json::parse_event_t event, Json& parsed) {
          return take(at, event, parsed, line);
        });
    if (array ? whole.is_array() : whole.is_object()) return;
  } catch (const Json::parse_error& error) {
    fail_at(path, text, error.byte == 0 ? 0 : error.byte - 1,
            fmt::format("expected {}, got text that is not JSON", what));
  } catch (const Json::exception& error) {
    fail_at(path, text, 0, fmt::format("a number is too large for a job log ({})", error.what()));
  }
  fail_at(path, text, 0, fmt::format("expected {}, got other JSON", what));
}

}  // namespace

void read_json_items(const std::string& path, std::string_view text, int depth,
                     const std::string& what, const JsonItem& each) {
  int begun = 1;
  parse_json(path, text, depth == 1, what,
             [&](int at, Json::parse_event_t event, Json& parsed, int line) {
               if (at != depth) return true;
               if (event == Json::parse_event_t::object_start) begun = line;
               if (event != Json::parse_event_t::object_end) return true;
               each(parsed, begun);
               return false;  // frees the object, which has been read
             });
}

void read_json_members(const std::string& path, std::string_view text, const std::string& what,
                       const std::function<void(const JsonMember&)>& each) {
  std::string section, name;
  int begun = 1;
  parse_json(path, text, false, what,
             [&](int at, Json::parse_event_t event, Json& parsed, int line) {
               if (event == Json::parse_event_t::key && at <= 2) {
                 (at == 1 ? section : name) = parsed.get<std::string>();
                 if (at == 1) name.clear();
               }
               if (at != 2) return true;
               if (event == Json::parse_event_t::object_start) begun = line;
               if (event != Json::parse_event_t::object_end) return true;
               each({section, name, parsed, begun});
               return false;  // frees the object, which has been read
             });
}

std::string json_text(const Json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<std::int64_t> json_instant(const Json& object, const char* key) {
  return parse_instant(json_text(object, key));
}

const Json& json_at(const Json& object, std::initializer_list<const char*> path) {
  static const Json kNothing;
  const Json* at = &object;
  for (const char* const key : path) {
    if (!at->is_object()) return kNothing;
    const auto found = at->find(key);
    if (found == at->end()) return kNothing;
    at = &*found;
  }
  return *at;
}

}  // namespace orrery
