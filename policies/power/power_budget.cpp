#include "policies/power/power_budget.hpp"

#include <algorithm>
#include <tuple>
#include <variant>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "topologies/power.hpp"

namespace orrery {
namespace {

/// Returns true if the event may change who draws how much.
bool changes_division(const Event& event) {
  return !std::holds_alternative<StepsDone>(event) && !std::holds_alternative<SaveDone>(event) &&
         !std::holds_alternative<Decided>(event);
}

/// Returns the jobs with GPUs whose power can be limited, those that go first in front.
std::vector<const JobInfo*> limited_jobs(const Observation& seen) {
  std::vector<const JobInfo*> jobs;
  for (const JobInfo& job : seen.jobs) {
    if (job.is_placed() && job.spec.can.has<PowerCap>()) jobs.push_back(&job);
  }
  std::sort(jobs.begin(), jobs.end(), [](const JobInfo* a, const JobInfo* b) {
    return std::tuple(-a->spec.priority, a->spec.id) < std::tuple(-b->spec.priority, b->spec.id);
  });
  return jobs;
}

/// Returns true if a job whose power can be limited is running.
bool has_running_job(const JobTable& jobs) {
  return std::any_of(jobs.begin(), jobs.end(), [](const JobInfo& job) {
    return job.phase == JobPhase::running && job.spec.can.has<PowerCap>();
  });
}

std::size_t count_gpus(const std::vector<const JobInfo*>& jobs) {
  std::size_t gpus = 0;
  for (const JobInfo* job : jobs) gpus += job->gpus.size();
  return gpus;
}

/// Returns the number of GPUs of all jobs.
std::size_t count_taken(const JobTable& jobs) {
  std::size_t gpus = 0;
  for (const JobInfo& job : jobs) gpus += job.gpus.size();
  return gpus;
}

}  // namespace

Needs PowerBudgetPolicy::needs() const {
  return {.actions = Kinds<Action>::of<Configure>(), .settings = Kinds<Setting>::of<PowerCap>()};
}

void PowerBudgetPolicy::start(Context&, const Cluster& cluster,
                              const google::protobuf::Message* parameters) {
  const auto* given = dynamic_cast<const PowerBudgetParameters*>(parameters);
  ensure(parameters == nullptr || given != nullptr,
         "a policy is started with parameters of its own type");
  PowerBudgetParameters all;
  if (given != nullptr) all = *given;
  fill_defaults(all);
  limits_ = PowerSchedule(all.limits(), cluster, "limits");
  division_ = named<PowerDivision>(all.spend());
  least_clock_ = all.least_clock();
  if (limits_.windows().empty() || cluster.gpu_model().idle_power.value > 0) return;
  throw Error(ErrorKind::bad_input,
              fmt::format("limits: expected GPUs whose idle power is known, found '{}' without; "
                          "write its idle_power and max_power in 'gpus'",
                          cluster.gpu_model().name));
}

void PowerBudgetPolicy::observe(Context&, const Observation& seen, DecisionList& decisions) {
  if (std::any_of(seen.events.begin(), seen.events.end(), changes_division)) {
    divide_power(seen, decisions);
  }
  // The start of a job is an event; requested calls alone would keep a simulation from its end.
  const Nanos next = limits_.next_change(seen.now);
  if (next < kNever && has_running_job(seen.jobs)) decisions.wake(next);
  decisions.rest();
}

void PowerBudgetPolicy::divide_power(const Observation& seen, DecisionList& decisions) const {
  const Cluster& cluster = seen.cluster;
  const GpuModel& gpu = cluster.gpu_model();
  const double idle = gpu.idle_power.value;
  const double most = gpu_limit(cluster, full_power(cluster)).value - idle;
  const Watts site = limits_.limit_at(seen.now).value_or(full_power(cluster));
  const std::vector<const JobInfo*> jobs = limited_jobs(seen);
  const std::size_t limited = count_gpus(jobs);
  const std::size_t others = count_taken(seen.jobs) - limited;
  // Watts above idle for all limited GPUs together.
  double left =
      (gpu_limit(cluster, site).value - idle) * cluster.gpus() - most * static_cast<double>(others);
  const double even = left / static_cast<double>(std::max<std::size_t>(limited, 1));
  for (const JobInfo* job : jobs) {
    const auto gpus = static_cast<double>(job->gpus.size());
    const double share = division_ == PowerDivision::even ? even : left / gpus;
    double above = std::clamp(share, 0.0, most);
    const double clock = clock_under(gpu, Watts{idle + above});
    const bool pauses = division_ == PowerDivision::pause ? clock < 1 : clock < least_clock_;
    if (pauses) above = 0;
    left -= above * gpus;
    const double watts = above >= most ? 0 : idle + above;
    if (job->now.get<PowerCap>().watts == watts) continue;
    decisions.add(Configure{job->spec.id, PowerCap{watts}},
                  watts == 0 ? fmt::format("{:.4g} kW: full power", site.value / 1000)
                             : fmt::format("{:.4g} kW: {}, {:.0f} W a GPU", site.value / 1000,
                                           pauses ? "a pause" : "a lower clock", watts));
  }
}

}  // namespace orrery
