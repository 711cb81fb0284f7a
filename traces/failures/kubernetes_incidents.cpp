#include "traces/failures/kubernetes_incidents.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "core/schema/yaml_tree.hpp"
#include "traces/jobs/json_items.hpp"

namespace orrery {
namespace {

constexpr std::int64_t kWindow_s = 600;

/// One event.
struct ClusterEvent {
  std::int64_t at = 0;
  std::string kind = {}, name = {}, reason = {};
  bool warning = false;
};

bool contains_any(const std::string& text, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&text](const char* const word) {
    return text.find(word) != std::string::npos;
  });
}

bool is_job(const ClusterEvent& event) {
  return event.kind.ends_with("Job") || event.kind == "JobSet";
}
bool is_loss(const ClusterEvent& event) {
  return contains_any(event.reason, {"Restarting", "Failed", "Suspended", "Preempted", "Evicted"});
}
bool is_return(const ClusterEvent& event) {
  return contains_any(event.reason, {"Running", "Resumed", "Started"});
}

std::vector<ClusterEvent> read_events(const std::string& path, std::string_view text) {
  std::vector<ClusterEvent> events;
  read_json_items(
      path, text, 2, "a list of Kubernetes events (kubectl get events -A -o json)",
      [&](const nlohmann::json& object, int line) {
        const nlohmann::json& core = json_at(object, {"involvedObject"});
        const nlohmann::json& about = core.is_null() ? json_at(object, {"regarding"}) : core;
        if (about.is_null()) return;
        ClusterEvent event{.kind = json_text(about, "kind"),
                           .reason = json_text(object, "reason"),
                           .warning = json_text(object, "type") == "Warning"};
        const std::string space = event.kind == "Node" ? "" : json_text(about, "namespace");
        event.name =
            space.empty() ? json_text(about, "name") : space + "/" + json_text(about, "name");
        std::optional<std::int64_t> at;
        for (const char* const key : {"eventTime", "firstTimestamp", "lastTimestamp"}) {
          if (!at) at = json_instant(object, key);
        }
        if (!at) at = json_instant(json_at(object, {"metadata"}), "creationTimestamp");
        if (!at) {
          throw Error(place_in(text, path, line, 1),
                      "expected an event with eventTime, "
                      "firstTimestamp or lastTimestamp, found none");
        }
        event.at = *at;
        events.push_back(std::move(event));
      });
  std::stable_sort(events.begin(), events.end(),
                   [](const auto& a, const auto& b) { return a.at < b.at; });
  return events;
}

/// Returns the name of the job with the most events, or of the chosen one.
std::string job_of(const std::vector<ClusterEvent>& events, const std::string& path,
                   std::string_view text, const std::string& name) {
  std::map<std::string, std::size_t> jobs;
  for (const ClusterEvent& each : events) {
    if (is_job(each)) ++jobs[each.name];
  }
  std::vector<std::string> names;
  std::string most;
  for (const auto& [each, count] : jobs) {
    names.push_back(each);
    if (most.empty() || count > jobs[most]) most = each;
    if (!name.empty() && (each == name || each.ends_with("/" + name))) return each;
  }
  if (!most.empty() && name.empty()) return most;
  throw Error(place_in(text, path, 1, 1),
              fmt::format("expected events of {}, found none{}",
                          name.empty() ? "a training job (an object whose kind ends in Job, or "
                                         "a JobSet)"
                                       : "the job '" + name + "'",
                          did_you_mean(name, names)));
}

/// Follower of the events of one job.
class JobStory {
 public:
  explicit JobStory(std::vector<ClusterEvent> events) : events_(std::move(events)) {}

  IncidentLog read(const std::string& job) {
    log_.format = "kubernetes";
    if (events_.empty()) return log_;
    const std::int64_t begin = events_.front().at;
    for (std::size_t i = 0; i < events_.size(); ++i) {
      const ClusterEvent& event = events_[i];
      if (is_job(event) && event.name == job) follow_job(i, begin);
      if (event.kind == "Node" && event.reason == "NodeReady") end_outage(event, begin);
    }
    log_.length_s = static_cast<double>(events_.back().at - begin);
    if (open_) log_.incidents.back().down_s = log_.length_s - log_.incidents.back().at_s;
    return log_;
  }

 private:
  void follow_job(std::size_t index, std::int64_t begin) {
    const ClusterEvent& event = events_[index];
    if (is_loss(event) && !open_) {
      const ClusterEvent& first = cause_of(index);
      Incident incident{.at_s = static_cast<double>(first.at - begin), .cause = first.reason};
      incident.part = first.kind == "Node" ? FailingPart::node : FailingPart::job;
      if (first.kind == "Node") incident.index = index_of(first.name);
      incident.detection_s = static_cast<double>(event.at - first.at);
      log_.incidents.push_back(std::move(incident));
      open_ = true;
    } else if (is_return(event) && open_) {
      Incident& newest = log_.incidents.back();
      newest.down_s = static_cast<double>(event.at - begin) - newest.at_s;
      back_at_ = event.at;
      open_ = false;
    }
  }

  /// Returns the event that explains a loss.
  const ClusterEvent& cause_of(std::size_t index) const {
    const std::int64_t oldest = std::max(events_[index].at - kWindow_s, back_at_);
    const ClusterEvent* pod = nullptr;
    for (std::size_t i = index; i-- > 0 && events_[i].at > oldest;) {
      if (!events_[i].warning) continue;
      if (events_[i].kind == "Node") return events_[i];
      if (events_[i].kind == "Pod" && pod == nullptr) pod = &events_[i];
    }
    return pod != nullptr ? *pod : events_[index];
  }

  void end_outage(const ClusterEvent& event, std::int64_t begin) {
    const std::uint32_t index = index_of(event.name);
    for (auto each = log_.incidents.rbegin(); each != log_.incidents.rend(); ++each) {
      if (each->part != FailingPart::node || each->index != index) continue;
      if (!each->repair_s) each->repair_s = static_cast<double>(event.at - begin) - each->at_s;
      return;
    }
  }

  std::uint32_t index_of(const std::string& name) {
    const auto next = static_cast<std::uint32_t>(log_.node_names.size());
    const auto [known, added] = indices_.try_emplace(name, next);
    if (added) log_.node_names.push_back(name);
    return known->second;
  }

  const std::vector<ClusterEvent> events_;
  IncidentLog log_;
  std::map<std::string, std::uint32_t> indices_;
  bool open_ = false;
  std::int64_t back_at_ = INT64_MIN;
};

}  // namespace

IncidentLog read_kubernetes_incidents(const std::string& path, std::string_view text,
                                      const IncidentOptions& options) {
  std::vector<ClusterEvent> events = read_events(path, text);
  const std::string job = job_of(events, path, text, options.job);
  IncidentLog log = JobStory(std::move(events)).read(job);
  if (options.length_s) log.length_s = std::max(log.length_s, *options.length_s);
  log.notes.push_back(fmt::format("The incidents are those of the job {}.", job));
  return log;
}

}  // namespace orrery
