#include "policies/run/batsim_policy.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {
namespace {

using Json = nlohmann::ordered_json;

// The clock of the scheduler begins at 1 s: schedulers of pybatsim refuse to start a job at 0.
constexpr double kOrigin_s = 1;
constexpr Nanos kRounding = 1000;  // instants pass through decimal numbers

double batsim_time(Nanos at) { return to_seconds(at) + kOrigin_s; }

Nanos policy_time(double at_s) { return to_nanos(at_s - kOrigin_s); }

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::bad_input, "the scheduler: " + message);
}

std::string batsim_id(JobId job) { return fmt::format("w0!{}", job.value); }

JobId job_of_id(const std::string& id) {
  JobId job;
  const char* const begin = id.data() + std::min<std::size_t>(3, id.size());
  const auto [end, failure] = std::from_chars(begin, id.data() + id.size(), job.value);
  if (!id.starts_with("w0!") || failure != std::errc() || end != id.data() + id.size()) {
    refuse(fmt::format("expected the id of a job (w0!N), found '{}'", id));
  }
  return job;
}

Json event(double now_s, const char* type, Json data) {
  return {{"timestamp", now_s}, {"type", type}, {"data", std::move(data)}};
}

/// Returns the GPUs of an allocation: "0-3 8" or "0-3,8".
GpuRuns parse_allocation(const std::string& text, std::uint32_t resources) {
  GpuRuns gpus;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&] {
    std::uint32_t value = 0;
    const auto [after, failure] = std::from_chars(at, end, value);
    if (failure != std::errc() || value >= resources) {
      refuse(fmt::format("expected resources below {} as 'FIRST-LAST ...', found '{}'", resources,
                         text));
    }
    at = after;
    return value;
  };
  while (at != end) {
    if (*at == ' ' || *at == ',') {
      ++at;
      continue;
    }
    const std::uint32_t first = number();
    std::uint32_t last = first;
    if (at != end && *at == '-') {
      ++at;
      last = number();
    }
    if (last < first) refuse(fmt::format("expected ascending intervals, found '{}'", text));
    gpus.append_run({first, last - first + 1});
  }
  return gpus;
}

Json job_submitted(const JobSpec& job, double now_s) {
  const double estimate_s = to_seconds(job.estimate);
  const std::string profile = fmt::format("delay{}", job.id.value);
  Json data{{"job_id", batsim_id(job.id)},
            {"job",
             {{"id", batsim_id(job.id)},
              {"subtime", batsim_time(job.submit)},
              {"res", job.gpus},
              {"profile", profile},
              {"walltime", job.estimate > 0 ? Json(estimate_s) : Json(-1)}}},
            {"profile", {{"type", "delay"}, {"delay", estimate_s}}}};
  return event(now_s, "JOB_SUBMITTED", std::move(data));
}

Json job_completed(const JobDone& done, double now_s) {
  const char* const state = done.how == Ending::completed ? "COMPLETED_SUCCESSFULLY"
                            : done.how == Ending::failed  ? "COMPLETED_FAILED"
                                                          : "COMPLETED_KILLED";
  return event(now_s, "JOB_COMPLETED",
               {{"job_id", batsim_id(done.job)},
                {"job_state", state},
                {"return_code", done.how == Ending::completed ? 0 : 1}});
}

Json simulation_begins(std::uint32_t resources) {
  Json machines = Json::array();
  for (std::uint32_t id = 0; id < resources; ++id) {
    machines.push_back({{"id", id},
                        {"name", fmt::format("gpu{}", id)},
                        {"state", "idle"},
                        {"properties", Json::object()}});
  }
  return event(0, "SIMULATION_BEGINS",
               {{"nb_resources", resources},
                {"nb_compute_resources", resources},
                {"nb_storage_resources", 0},
                {"allow_time_sharing", false},
                {"allow_compute_sharing", false},
                {"allow_storage_sharing", false},
                {"config",
                 {{"redis-enabled", false},
                  {"profiles-forwarded-on-submission", true},
                  {"dynamic-jobs-enabled", false},
                  {"dynamic-jobs-acknowledged", false},
                  {"forward-unknown-events", false}}},
                {"compute_resources", machines},
                {"storage_resources", Json::array()},
                {"workloads", {{"w0", "jobs"}}},
                {"profiles", {{"w0", Json::object()}}}});
}

}  // namespace

BatsimPolicy::~BatsimPolicy() {
  if (!connection_ || !has_begun_) return;
  try {
    send_events(now_s_, Json::array({event(now_s_, "SIMULATION_ENDS", Json::object())}));
    if (scheduler_) scheduler_->wait_for(std::chrono::seconds(2));
  } catch (const std::exception&) {  // the scheduler has ended first
  }
}

void BatsimPolicy::start(Context&, const Cluster& cluster, const google::protobuf::Message*) {
  resources_ = cluster.gpus();
  if (!options_.command.empty()) {
    scheduler_ = std::make_unique<ChildProcess>(
        "/bin/sh", std::vector<std::string>{"-c", "exec >&2; " + options_.command},
        ChildGroup::own);
  }
  connection_ = std::make_unique<ZmqRequest>(options_.host, options_.port, options_.patience);
}

void BatsimPolicy::save(Archive& archive) const {
  archive += fmt::format("{} {} {} {}", messages_, starts_, later_.size(), calls_.size());
}

BatsimPolicy::Json BatsimPolicy::send_events(double now_s, Json events) {
  const Json message{{"now", now_s}, {"events", std::move(events)}};
  ++messages_;
  std::string text;
  try {
    text = connection_->send_request(message.dump());
  } catch (const Error&) {
    connection_.reset();  // the end of the simulation would wait for an answer again
    throw;
  }
  Json answer = Json::parse(text, nullptr, false);
  if (!answer.is_object() || !answer.contains("events") || !answer["events"].is_array()) {
    refuse(
        fmt::format("expected an answer with 'now' and 'events', found '{}'", text.substr(0, 200)));
  }
  return answer;
}

void BatsimPolicy::observe(Context&, const Observation& seen, DecisionList& decisions) {
  now_s_ = batsim_time(seen.now);
  for (; !later_.empty() && later_.begin()->first <= seen.now; later_.erase(later_.begin())) {
    const Later& start = later_.begin()->second;
    ++starts_;
    decisions.add(Assign{start.job, start.gpus, seen.jobs[start.job].spec.layout},
                  "the scheduler started it");
  }
  // The schedulers of pybatsim expect the begin in a message of its own.
  if (!std::exchange(has_begun_, true)) {
    carry_out(send_events(now_s_, Json::array({simulation_begins(resources_)})), seen, decisions);
  }
  Json events = events_of(seen);
  if (!events.empty()) carry_out(send_events(now_s_, std::move(events)), seen, decisions);
  decisions.rest();
}

BatsimPolicy::Json BatsimPolicy::events_of(const Observation& seen) {
  Json events = Json::array();
  for (const Event& each : seen.events) {
    if (const auto* submitted = std::get_if<JobSubmitted>(&each)) {
      events.push_back(job_submitted(submitted->job, now_s_));
    } else if (const auto* done = std::get_if<JobDone>(&each)) {
      events.push_back(job_completed(*done, now_s_));
    } else if (const auto* outcome = std::get_if<Decided>(&each)) {
      if (outcome->status == Outcome::applied) continue;
      refuse("expected free resources for each EXECUTE_JOB, found a start that is impossible: " +
             outcome->reason);
    }
  }
  if (!calls_.empty() && *calls_.begin() <= seen.now) {
    calls_.erase(calls_.begin(), calls_.upper_bound(seen.now));
    events.push_back(event(now_s_, "REQUESTED_CALL", Json::object()));
  }
  return events;
}

void BatsimPolicy::carry_out(const Json& answer, const Observation& seen, DecisionList& decisions) {
  for (const Json& each : answer["events"]) {
    try {
      const std::string type = each.at("type");
      if (type == "EXECUTE_JOB") {
        execute_job(each, seen, decisions);
      } else if (type == "CALL_ME_LATER") {
        const Nanos at = policy_time(each.at("data").at("timestamp"));
        calls_.insert(at);
        decisions.wake(at);
      } else if (type != "REJECT_JOB" && type != "NOTIFY" && type != "SET_JOB_METADATA") {
        refuse(
            fmt::format("expected EXECUTE_JOB, REJECT_JOB or CALL_ME_LATER, found {}, which is "
                        "not supported",
                        type));
      }
    } catch (const Json::exception&) {
      refuse(fmt::format("expected an event of Batsim, found '{}'", each.dump().substr(0, 200)));
    }
  }
}

void BatsimPolicy::execute_job(const Json& event, const Observation& seen,
                               DecisionList& decisions) {
  const std::string id = event.at("data").at("job_id");
  const JobInfo* const job = seen.jobs.find(job_of_id(id));
  if (job == nullptr) refuse(fmt::format("expected a job in the queue, found '{}'", id));
  GpuRuns gpus = parse_allocation(event.at("data").at("alloc"), resources_);
  if (gpus.size() != job->spec.gpus) {
    refuse(fmt::format("expected {} resources for {}, found {}", job->spec.gpus, id, gpus.size()));
  }
  const Nanos at = policy_time(event.value("timestamp", now_s_));
  if (at > seen.now + kRounding) {
    later_.emplace(at, Later{job->spec.id, std::move(gpus)});
    return decisions.wake(at);
  }
  ++starts_;
  decisions.add(Assign{job->spec.id, std::move(gpus), job->spec.layout},
                "the scheduler started it");
}

}  // namespace orrery
