#include "traces/jobs/philly_json.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/schema/yaml_tree.hpp"
#include "traces/jobs/log_time.hpp"

namespace orrery {
namespace {

using Json = nlohmann::json;

/// Knows in which line the reader is.
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

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<std::int64_t> instant_of(const Json& object, const char* key) {
  return parse_instant(text_of(object, key));
}

std::size_t gpus_of(const Json& attempt) {
  std::size_t gpus = 0;
  const auto detail = attempt.find("detail");
  if (detail == attempt.end() || !detail->is_array()) return 0;
  for (const Json& machine : *detail) {
    const auto list = machine.is_object() ? machine.find("gpus") : machine.end();
    if (machine.is_object() && list != machine.end() && list->is_array()) gpus += list->size();
  }
  return gpus;
}

PhillyEntry entry_of(const Json& object, int line) {
  PhillyEntry entry;
  TraceJob& job = entry.job;
  job.line = line;
  job.id = text_of(object, "jobid");
  job.pool = text_of(object, "vc");
  job.user = text_of(object, "user");
  const auto submitted = instant_of(object, "submitted_time");
  const auto attempts = object.find("attempts");
  if (!submitted || job.id.empty() || attempts == object.end() || !attempts->is_array()) {
    entry.problem = "a job needs jobid, submitted_time and attempts";
    return entry;
  }
  job.submit_s = *submitted;
  for (const Json& attempt : *attempts) {
    if (!attempt.is_object()) continue;
    const std::size_t gpus = gpus_of(attempt);
    const auto start = instant_of(attempt, "start_time"), end = instant_of(attempt, "end_time");
    if (gpus == 0 || !start || !end) continue;
    if (*end < *start) entry.problem = "an attempt ends before its start";
    if (job.gpus == 0) {
      job.gpus = static_cast<std::uint32_t>(gpus);
      if (*start >= job.submit_s) job.recorded_start_s = *start;
    }
    job.duration_s += std::max<std::int64_t>(0, *end - *start);
    entry.ran = true;
  }
  return entry;
}

[[noreturn]] void fail_at(const std::string& path, std::string_view text, std::size_t byte,
                          const std::string& message) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const std::size_t begin = before.rfind('\n') + 1;  // npos + 1 is 0
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  throw Error(
      place_in(text, path, static_cast<int>(line), static_cast<int>(before.size() - begin) + 1),
      message);
}

}  // namespace

void read_philly_json(const std::string& path, std::string_view text,
                      const std::function<void(const PhillyEntry&)>& each) {
  int line = 1, begun = 1;
  const auto take = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth != 1) return true;
    if (event == Json::parse_event_t::object_start) begun = line;
    if (event != Json::parse_event_t::object_end) return true;
    each(entry_of(parsed, begun));
    return false;  // it has been read: nobody keeps it
  };
  try {
    const CountingIterator begin{text.data(), &line}, end{text.data() + text.size(), &line};
    const Json whole = Json::parse(begin, end, take);
    if (whole.is_array()) return;
  } catch (const Json::parse_error& error) {
    fail_at(path, text, error.byte == 0 ? 0 : error.byte - 1,
            "expected a Philly job log: a JSON array of jobs; here it is no JSON any more");
  } catch (const Json::exception& error) {
    fail_at(path, text, 0, fmt::format("a number that no job log has ({})", error.what()));
  }
  fail_at(path, text, 0, "expected a Philly job log: a JSON array of jobs, got something else");
}

}  // namespace orrery
