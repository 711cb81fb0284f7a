// The objects of a JSON array, one after the other, with the line in which each begins, so that a
// gigabyte needs no gigabytes of memory. Used by the readers of job logs in JSON. One thread.
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

/// What an object says of a job.
struct JobEntry {
  TraceJob job;         ///< times since 1970
  std::string problem;  ///< empty: none
  bool ran = false;     ///< it had GPUs at some time, and has ended
};

using JsonItem = std::function<void(const nlohmann::json& object, int line)>;

/// Calls `each` for every object at that depth: 1 in an array, 2 in an array within an object.
/// `what` it should be is for messages. Throws bad_input with the place of what is no JSON, and
/// for something else than an array (depth 1) or an object (depth 2).
void read_json_items(const std::string& path, std::string_view text, int depth,
                     const std::string& what, const JsonItem& each);

/// The text of a key; empty where there is none.
std::string json_text(const nlohmann::json& object, const char* key);
/// Seconds since 1970.
std::optional<std::int64_t> json_instant(const nlohmann::json& object, const char* key);
/// What stands under a path of keys; null where nothing does.
const nlohmann::json& json_at(const nlohmann::json& object,
                              std::initializer_list<const char*> path);

}  // namespace orrery
