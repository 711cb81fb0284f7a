#include "policies/input/prefetch.hpp"

#include <algorithm>
#include <memory>
#include <variant>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "policies/seam/byte_archive.hpp"
#include "policies/seam/sample_columns.hpp"

namespace orrery {
namespace {

/// Steps until samples show a setting: the step in progress has the earlier one, and a sample is
/// that of the previous step.
constexpr Step kShownAfter = 2;

std::uint32_t limit_or(std::uint32_t limit, std::uint32_t otherwise) {
  return limit > 0 ? limit : otherwise;
}

/// Returns the longest wait for data of any rank in the previous step, in seconds, of the ranks at
/// step `from` or later; nothing if no wait is known.
std::optional<double> longest_wait(Samples& samples, JobId job, Step from) {
  const std::shared_ptr<const SampleRows> rows = samples.rows(SampleTable::ranks, job);
  const std::shared_ptr<const SampleColumn> waits = samples.column(SampleField::input_wait, job);
  std::optional<double> longest;
  for (std::size_t row = 0; row < std::min(rows->size(), waits->size()); ++row) {
    const Sample<double> wait = waits->sample(row);
    if (!wait.is_known() || rows->steps[row] < from) continue;
    longest = std::max(longest.value_or(0), wait.value);
  }
  return longest;
}

/// Returns the mean duration in seconds of the steps of `job` in the events; nothing without any.
std::optional<double> step_time(const Observation& seen, JobId job) {
  Nanos duration = 0;
  std::uint64_t count = 0;
  for (const Event& event : seen.events) {
    const auto* done = std::get_if<StepsDone>(&event);
    if (done == nullptr || done->job != job) continue;
    duration += done->duration;
    count += done->count;
  }
  if (count == 0) return {};
  return to_seconds(duration) / static_cast<double>(count);
}

}  // namespace

Prefetch raised_prefetch(const JobInfo& job, std::uint32_t most_workers) {
  const Prefetch now = job.now.get<Prefetch>();
  const std::uint32_t most_depth =
      std::min(limit_or(job.spec.max_prefetch, kMostPrefetch), kMostPrefetch);
  const std::uint32_t most = std::min({limit_or(job.spec.max_workers, kMostWorkers), kMostWorkers,
                                       most_workers, most_depth});
  Prefetch more;
  more.workers = std::max(now.workers, std::min(2 * now.workers, most));
  more.depth = std::max(now.depth, std::min(2 * more.workers, most_depth));
  return more;
}

Needs PrefetchPolicy::needs() const {
  return {.actions = Kinds<Action>::of<Configure>(), .settings = Kinds<Setting>::of<Prefetch>()};
}

void PrefetchPolicy::start(Context&, const Cluster&, const google::protobuf::Message* parameters) {
  const auto* given = dynamic_cast<const PrefetchParameters*>(parameters);
  ensure(parameters == nullptr || given != nullptr,
         "a policy is started with parameters of its own type");
  if (given != nullptr) parameters_ = *given;
  fill_defaults(parameters_);
}

void PrefetchPolicy::observe(Context&, const Observation& seen, DecisionList& decisions) {
  for (const Event& event : seen.events) {
    if (const auto* started = std::get_if<JobStarted>(&event)) watches_.erase(started->job);
    if (const auto* over = std::get_if<JobDone>(&event)) watches_.erase(over->job);
  }
  bool is_quiet = true;
  for (const JobInfo& job : seen.jobs) {
    if (job.phase != JobPhase::running || !job.spec.can.has<Prefetch>()) continue;
    Watch& watch = watches_[job.spec.id];
    const std::optional<double> seconds = step_time(seen, job.spec.id);
    if (seconds && !watch.has_given_up) {
      const auto wait = longest_wait(seen.samples, job.spec.id, watch.counts_from);
      if (wait) add_step(job, *wait, *seconds, watch);
      if (watch.steps >= parameters_.steps()) decide_for_job(job, watch, decisions);
    }
    is_quiet = is_quiet && watch.is_settled;
  }
  if (is_quiet) decisions.rest();
}

bool PrefetchPolicy::can_raise(const JobInfo& job, const Watch& watch) const {
  const Prefetch more = raised_prefetch(job, parameters_.most_workers());
  // A raise that was asked for and is not there was refused, or only proposed.
  return more != job.now.get<Prefetch>() && more != watch.asked;
}

/// Without news a settled job stays settled, so that a rest may pass over such steps.
void PrefetchPolicy::add_step(const JobInfo& job, double wait, double seconds,
                              Watch& watch) const {
  const bool is_late = wait > parameters_.late() * seconds && can_raise(job, watch);
  if (watch.is_settled && !is_late) return;
  watch.is_settled = false;
  watch.waits += wait;
  watch.seconds += seconds;
  ++watch.steps;
}

void PrefetchPolicy::decide_for_job(const JobInfo& job, Watch& watch,
                                    DecisionList& decisions) const {
  const Prefetch now = job.now.get<Prefetch>();
  const double wait = watch.waits / watch.steps;
  const double share = watch.seconds > 0 ? watch.waits / watch.seconds : 0;
  watch.waits = watch.seconds = 0;
  watch.steps = 0;
  watch.is_settled = true;
  const auto decide = [&](const Prefetch& wanted, const char* why) {
    decisions.add(Configure{job.spec.id, wanted},
                  fmt::format("{:.1f}% of the step waits for data{}: {} readers, {} ahead",
                              100 * share, why, wanted.workers, wanted.depth));
  };
  if (watch.wait_before >= 0 && now == watch.asked) {
    if (wait > (1 - parameters_.gain()) * watch.wait_before) {
      watch.has_given_up = true;
      return decide(watch.before, " with more readers too");
    }
    watch.wait_before = -1;
    watch.asked = {};
  }
  if (share <= parameters_.late() || !can_raise(job, watch)) return;
  watch.before = now;
  watch.asked = raised_prefetch(job, parameters_.most_workers());
  watch.wait_before = wait;
  watch.counts_from = job.step + kShownAfter;
  watch.is_settled = false;
  decide(watch.asked, "");
}

void PrefetchPolicy::save(Archive& archive) const {
  archive.clear();
  ByteWriter write(archive);
  for (const auto& [id, watch] : watches_) {
    write(id.value);
    Watch::fields(watch, write);
  }
}

void PrefetchPolicy::load(const Archive& archive) {
  watches_.clear();
  ByteReader read(archive);
  while (!read.is_at_end()) {
    JobId id{};
    Watch watch;
    read(id.value);
    Watch::fields(watch, read);
    watches_[id] = watch;
  }
}

}  // namespace orrery
