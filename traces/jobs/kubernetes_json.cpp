#include "traces/jobs/kubernetes_json.hpp"

#include <algorithm>
#include <charconv>

namespace orrery {
namespace {

using Json = nlohmann::json;
using Instant = std::optional<std::int64_t>;

constexpr std::uint64_t kMostGpus = 1 << 20;

/// Returns a whole number, also from a text; 0 for any other value. Values above kMostGpus become
/// kMostGpus + 1.
std::uint64_t count_of(const Json& value) {
  if (value.is_number_unsigned()) return std::min(value.get<std::uint64_t>(), kMostGpus + 1);
  if (!value.is_string()) return 0;
  const auto& text = value.get_ref<const std::string&>();
  std::uint64_t count = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool whole = error == std::errc{} && stop == text.data() + text.size();
  return whole ? std::min(count, kMostGpus + 1) : 0;
}

/// Returns the GPUs of one pod.
std::uint64_t gpus_of(const Json& pod_spec) {
  std::uint64_t gpus = 0;
  const Json& containers = json_at(pod_spec, {"containers"});
  if (!containers.is_array()) return 0;
  for (const Json& container : containers) {
    for (const char* const wish : {"limits", "requests"}) {
      const Json& resources = json_at(container, {"resources", wish});
      std::uint64_t here = 0;
      if (!resources.is_object()) continue;
      for (const auto& [name, amount] : resources.items()) {
        if (name.ends_with("/gpu")) here += count_of(amount);
      }
      gpus += here;
      if (here > 0) break;  // limits and requests of GPUs are equal
    }
  }
  return gpus;
}

/// Returns the instant at which a condition of that type became true.
Instant condition(const Json& object, std::string_view type) {
  const Json& conditions = json_at(object, {"status", "conditions"});
  if (!conditions.is_array()) return {};
  for (const Json& each : conditions) {
    if (json_text(each, "type") == type && json_text(each, "status") == "True") {
      return json_instant(each, "lastTransitionTime");
    }
  }
  return {};
}

/// GPUs, times and queue of one object.
struct Told {
  std::uint64_t gpus = 0;
  Instant start = {}, end = {};
  std::string queue = {};
};

Told workload(const Json& object) {
  Told told{.start = condition(object, "Admitted"), .end = condition(object, "Finished"),
            .queue = json_text(json_at(object, {"status", "admission"}), "clusterQueue")};
  if (told.queue.empty()) told.queue = json_text(json_at(object, {"spec"}), "queueName");
  const Json& sets = json_at(object, {"spec", "podSets"});
  if (!sets.is_array()) return told;
  for (const Json& set : sets) {
    const std::uint64_t pods = std::max<std::uint64_t>(1, count_of(json_at(set, {"count"})));
    told.gpus += pods * gpus_of(json_at(set, {"template", "spec"}));
  }
  return told;
}

Told batch_job(const Json& object) {
  Told told{.start = json_instant(json_at(object, {"status"}), "startTime"),
            .end = json_instant(json_at(object, {"status"}), "completionTime")};
  if (!told.end) told.end = condition(object, "Failed");
  const std::uint64_t pods =
      std::max<std::uint64_t>(1, count_of(json_at(object, {"spec", "parallelism"})));
  told.gpus = pods * gpus_of(json_at(object, {"spec", "template", "spec"}));
  return told;
}

Told pod(const Json& object) {
  Told told{.gpus = gpus_of(json_at(object, {"spec"})),
            .start = json_instant(json_at(object, {"status"}), "startTime")};
  const Json& containers = json_at(object, {"status", "containerStatuses"});
  if (!containers.is_array()) return told;
  for (const Json& container : containers) {
    const Instant ended =
        json_instant(json_at(container, {"state", "terminated"}), "finishedAt");
    if (!ended) return {told.gpus, told.start, {}};  // the pod still runs
    told.end = std::max(told.end.value_or(*ended), *ended);
  }
  return told;
}

JobEntry entry_of(const Json& object, int line) {
  JobEntry entry;
  TraceJob& job = entry.job;
  job.line = line;
  const std::string kind = json_text(object, "kind");
  const Json& metadata = json_at(object, {"metadata"});
  job.user = json_text(metadata, "namespace");
  job.name = json_text(metadata, "name");
  job.id = job.user.empty() ? job.name.str() : job.user.str() + "/" + job.name.str();
  const bool known = kind == "Workload" || kind == "Job" || kind == "Pod";
  if (!known) return entry;
  const Told told = kind == "Workload" ? workload(object)
                    : kind == "Job"    ? batch_job(object)
                                       : pod(object);
  const Instant created = json_instant(metadata, "creationTimestamp");
  if (!created || job.name.empty()) {
    entry.problem = "an object needs metadata.name and metadata.creationTimestamp";
  } else if (told.gpus > kMostGpus) {
    entry.problem = "requests more GPUs than any cluster has";
  } else if (told.gpus > 0 && told.start && told.end) {
    if (*told.end < *told.start) entry.problem = "ends before its start";
    job.submit_s = *created;
    job.gpus = static_cast<std::uint32_t>(told.gpus);
    job.duration_s = std::max<std::int64_t>(0, *told.end - *told.start);
    job.pool = told.queue;
    if (*told.start >= *created) job.recorded_start_s = *told.start;
    entry.ran = true;
  }
  return entry;
}

}  // namespace

void read_kubernetes_json(const std::string& path, std::string_view text,
                          const std::function<void(const JobEntry&)>& each) {
  read_json_items(path, text, 2, "a list of Kubernetes objects (kubectl get ... -o json)",
                  [&each](const Json& object, int line) {
                    if (object.contains("kind")) each(entry_of(object, line));
                  });
}

}  // namespace orrery
