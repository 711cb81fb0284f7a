#include "traces/jobs/batsim_workload.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/yaml_tree.hpp"

namespace orrery {
namespace {

using Json = nlohmann::json;

constexpr double kMostSeconds = 100.0 * 365 * 24 * 3600;
constexpr double kMostGpus = 1 << 20;
/// Batsim refuses a delay of 0; reading cuts this one off to 0 again.
constexpr const char* kShortestDelay = "0.001";

constexpr std::string_view kDelay = "delay", kDelayOfBatsim5 = "DelayProfile";

/// Profile of a workload.
struct Profile {
  std::string type;
  double delay_s = -1;  ///< negative: not a possible delay
};

/// Job whose profile may not have been read yet.
struct ReadJob {
  JobEntry entry;
  std::string profile;
};

/// Returns the number of a key if it is at least 0 and at most `most`; nothing otherwise.
std::optional<double> number_of(const Json& object, const char* key, double most) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return {};
  const double value = found->get<double>();
  if (!(value >= 0 && value <= most)) return {};
  return value;
}

/// Returns a text, or a number as text: Batsim allows both for ids and names of profiles.
std::string word_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return {};
  if (found->is_string()) return found->get<std::string>();
  return found->is_number_integer() ? found->dump() : std::string();
}

std::int32_t priority_of(const Json& object) {
  const auto found = object.find("priority");
  if (found == object.end() || !found->is_number()) return 0;
  return static_cast<std::int32_t>(std::clamp(found->get<double>(), -2e9, 2e9));
}

Profile profile_of(const Json& object) {
  return {json_text(object, "type"), number_of(object, "delay", kMostSeconds).value_or(-1)};
}

ReadJob job_of(const Json& object, int line) {
  ReadJob read;
  TraceJob& job = read.entry.job;
  job.line = line;
  const std::string own_id = json_text(object, "job_id");
  job.id = own_id.empty() ? word_of(object, "id") : own_id;
  job.user = json_text(object, "user");
  job.pool = json_text(object, "vc");
  job.name = json_text(object, "name");
  job.qos = json_text(object, "qos");
  job.priority = priority_of(object);
  read.profile = word_of(object, "profile");
  const auto submit = number_of(object, "subtime", kMostSeconds);
  const auto gpus = number_of(object, "res", kMostGpus);
  if (!submit || !gpus || job.id.empty() || read.profile.empty()) {
    read.entry.problem =
        "a job needs id, subtime (seconds, up to 100 years), res (up to 2^20) and profile";
    return read;
  }
  job.submit_s = static_cast<std::int64_t>(*submit);
  job.gpus = static_cast<std::uint32_t>(*gpus);
  job.requested_s =
      static_cast<std::int64_t>(number_of(object, "walltime", kMostSeconds).value_or(0));
  read.entry.ran = job.gpus > 0;
  return read;
}

[[noreturn]] void refuse_type(const std::string& path, std::string_view text, const ReadJob& read,
                              const Profile& profile) {
  throw Error(place_in(text, path, read.entry.job.line, 1),
              fmt::format("job '{}': expected a profile of the type delay, found '{}' of the type "
                          "{}, whose time depends on the platform: run the workload in Batsim, and "
                          "give the job a delay of its execution_time in the table *_jobs.csv",
                          shown(read.entry.job.id.str()), shown(read.profile),
                          profile.type.empty() ? "(none)" : shown(profile.type)));
}

/// Gives the job the duration of its profile.
void add_duration(const std::map<std::string, Profile>& profiles, const std::string& path,
                  std::string_view text, ReadJob& read) {
  if (!read.entry.problem.empty()) return;
  const auto found = profiles.find(read.profile);
  if (found == profiles.end()) {
    read.entry.problem = fmt::format("there is no profile '{}'", shown(read.profile));
    return;
  }
  const std::string& type = found->second.type;
  if (type != kDelay && type != kDelayOfBatsim5) refuse_type(path, text, read, found->second);
  if (found->second.delay_s < 0) {
    read.entry.problem =
        fmt::format("profile '{}' needs a delay (seconds, up to 100 years)", shown(read.profile));
    return;
  }
  TraceJob& job = read.entry.job;
  job.duration_s = static_cast<std::int64_t>(found->second.delay_s);
  // Batsim ends a job at its walltime.
  if (job.requested_s > 0) job.duration_s = std::min<std::int64_t>(job.duration_s, job.requested_s);
}

std::string json_of(std::string_view text) {
  return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string job_line(const TraceJob& job, std::size_t number) {
  std::string line =
      fmt::format(R"({{"id": {}, "subtime": {}, "res": {}, "profile": "{}{}")", number,
                  std::int64_t{job.submit_s}, job.gpus, kDelay, std::int64_t{job.duration_s});
  if (job.requested_s > 0) {
    line += fmt::format(R"(, "walltime": {})", std::int64_t{job.requested_s});
  }
  line += fmt::format(R"(, "job_id": {})", json_of(job.id.view()));
  const auto add_text = [&line](const char* key, const Label& label) {
    if (!label.empty()) line += fmt::format(R"(, "{}": {})", key, json_of(label.str()));
  };
  add_text("user", job.user);
  add_text("vc", job.pool);
  add_text("name", job.name);
  add_text("qos", job.qos);
  if (job.priority != 0) line += fmt::format(R"(, "priority": {})", job.priority);
  return line + "}";
}

/// Appends a remark if it is about any jobs.
void add_remark(std::vector<std::string>& remarks, std::size_t jobs, const char* text) {
  if (jobs > 0) remarks.push_back(fmt::format("{} of {} jobs", text, jobs));
}

}  // namespace

bool is_batsim_workload(std::string_view text) {
  return text.find("\"profiles\"") != std::string_view::npos ||
         text.find("\"nb_res\"") != std::string_view::npos;
}

void read_batsim_workload(const std::string& path, std::string_view text,
                          const std::function<void(const JobEntry&)>& each) {
  std::map<std::string, Profile> profiles;
  std::vector<ReadJob> jobs;
  read_json_members(path, text, "a workload of Batsim: a JSON object with jobs and profiles",
                    [&](const JsonMember& member) {
                      if (member.section == "profiles") {
                        profiles[member.name] = profile_of(member.value);
                      } else if (member.section == "jobs") {
                        jobs.push_back(job_of(member.value, member.line));
                      }
                    });
  for (ReadJob& read : jobs) {
    add_duration(profiles, path, text, read);
    each(read.entry);
  }
}

BatsimWorkload write_batsim_workload(const std::vector<TraceJob>& jobs, std::uint32_t resources) {
  BatsimWorkload out;
  std::set<std::int64_t> delays;
  std::size_t dependent = 0, started = 0, cut = 0, elastic = 0, choosy = 0;
  out.text = fmt::format("{{\n\"nb_res\": {},\n\"jobs\": [", resources);
  for (std::size_t number = 0; number < jobs.size(); ++number) {
    const TraceJob& job = jobs[number];
    out.text += (number == 0 ? "\n" : ",\n") + job_line(job, number);
    delays.insert(std::int64_t{job.duration_s});
    dependent += job.after.empty() ? 0 : 1;
    started += job.recorded_start_s >= 0 ? 1 : 0;
    elastic += job.sizes.empty() ? 0 : 1;
    choosy += job.kinds.empty() ? 0 : 1;
    cut += job.requested_s > 0 && job.duration_s > job.requested_s ? 1 : 0;
  }
  out.text += "\n],\n\"profiles\": {";
  bool first = true;
  for (const std::int64_t delay : delays) {
    out.text += fmt::format(R"({}"{}{}": {{"type": "{}", "delay": {}}})",
                            std::exchange(first, false) ? "\n" : ",\n", kDelay, delay, kDelay,
                            delay > 0 ? std::to_string(delay) : kShortestDelay);
  }
  out.text += "\n}\n}\n";
  add_remark(out.left_out, dependent, "the jobs before them (after)");
  add_remark(out.left_out, started, "the recorded start");
  add_remark(out.left_out, elastic, "other sizes (min_gpus, max_gpus, scaling)");
  add_remark(out.left_out, choosy, "the kinds of GPUs (gpu_kind, speeds)");
  add_remark(out.left_out, cut,
             "the time beyond the walltime (requested_s), at which Batsim ends a job,");
  return out;
}

}  // namespace orrery
