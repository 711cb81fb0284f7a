#include "traces/jobs/philly_json.hpp"

#include <algorithm>
#include <cstddef>

namespace orrery {
namespace {

using Json = nlohmann::json;

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

JobEntry entry_of(const Json& object, int line) {
  JobEntry entry;
  TraceJob& job = entry.job;
  job.line = line;
  job.id = json_text(object, "jobid");
  job.pool = json_text(object, "vc");
  job.user = json_text(object, "user");
  const auto submitted = json_instant(object, "submitted_time");
  const auto attempts = object.find("attempts");
  if (!submitted || job.id.empty() || attempts == object.end() || !attempts->is_array()) {
    entry.problem = "a job needs jobid, submitted_time and attempts";
    return entry;
  }
  job.submit_s = *submitted;
  for (const Json& attempt : *attempts) {
    if (!attempt.is_object()) continue;
    const std::size_t gpus = gpus_of(attempt);
    const auto start = json_instant(attempt, "start_time"), end = json_instant(attempt, "end_time");
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

}  // namespace

void read_philly_json(const std::string& path, std::string_view text,
                      const std::function<void(const JobEntry&)>& each) {
  read_json_items(path, text, 1, "a Philly job log: a JSON array of jobs",
                  [&each](const Json& object, int line) { each(entry_of(object, line)); });
}

}  // namespace orrery
