// Reader of the objects of a JSON array one after the other, each with its first line, so that a
// gigabyte of text needs no gigabytes of memory. Used by the readers of job logs in JSON. One
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "traces/jobs/job_trace.hpp"

namespace orrery {

/// Job of one JSON object of a log.
struct JobEntry {
  TraceJob job;         ///< times since 1970
  std::string problem;  ///< reason why the job is rejected; empty: none
  bool ran = false;     ///< true: the job had GPUs and has ended
};

/// Callback for an object and the line in which the object begins, from 1.
using JsonItem = std::function<void(const nlohmann::json& object, int line)>;

/// Calls `each` for every object at `depth`, in order, when its end is read: 1 for objects in an
/// array, 2 for objects in an array within an object. The object is freed after the call. The
/// fourth argument names the expected contents for messages. Throws bad_input with the place if the
/// text is not JSON, or not an array (depth 1) or object (depth 2); `each` may have been called by
/// then. Exceptions of `each` pass through, except those of nlohmann::json, which become bad_input.
void read_json_items(const std::string& path, std::string_view text, int depth,
                     const std::string& what, const JsonItem& each);

/// Value of a JSON object whose members are looked at one by one.
struct JsonMember {
  const std::string& section;  ///< key of the outermost object
  const std::string& name;     ///< key within the section; empty in an array
  const nlohmann::json& value;
  int line;  ///< first line of the value, from 1
};

/// Calls `each` for every object within the sections of an object, in order, when its end is read;
/// the object is freed after the call. For example, {"jobs": [{"id": 1}], "profiles": {"a": {}}}
/// gives the members jobs, without a name, and profiles, named "a". `what` names the expected
/// contents for messages. Throws as read_json_items() does.
void read_json_members(const std::string& path, std::string_view text, const std::string& what,
                       const std::function<void(const JsonMember&)>& each);

/// Returns the text of a key; empty if the key is missing or its value is not a text.
std::string json_text(const nlohmann::json& object, const char* key);
/// Returns the instant of a key in seconds since 1970; nothing if the key has no valid instant.
std::optional<std::int64_t> json_instant(const nlohmann::json& object, const char* key);
/// Returns the value under a path of keys, a reference into `object`; a JSON null if the path is
/// missing.
const nlohmann::json& json_at(const nlohmann::json& object,
                              std::initializer_list<const char*> path);

}  // namespace orrery
