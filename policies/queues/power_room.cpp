#include "policies/queues/power_room.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/error.hpp"
#include "policies/queues/granted_gpus.hpp"

namespace orrery {
namespace {

/// Times that each limit comes within the time that is looked at.
constexpr int kRounds = 8;

Nanos served_time(const JobInfo& job) {
  return std::llround(job.gpu_seconds / std::max(1u, job.spec.gpus) * kNanosPerSecond);
}

}  // namespace

PowerRoom::PowerRoom(const google::protobuf::RepeatedPtrField<PowerLimit>& limits,
                     const Cluster& cluster)
    : power_(cluster), limits_(limits, cluster, "limits") {
  if (empty()) return;
  if (!power_.is_known()) {
    throw Error(ErrorKind::bad_input,
                fmt::format("limits: expected GPUs whose power is known, found '{}' without: write "
                            "their idle_power and max_power in 'gpus' of the cluster",
                            cluster.gpu_model().name));
  }
  lowest_ = power_.gpus_within(*limits_.lowest());
}

std::uint32_t PowerRoom::most_gpus(Nanos at) const {
  const std::optional<Watts> limit = limits_.limit_at(at);
  return limit ? power_.gpus_within(*limit) : power_.gpus();
}

Nanos PowerRoom::expected_end(const JobInfo& job) const {
  const Nanos left = std::max<Nanos>(0, job.spec.estimate - served_time(job));
  const Nanos end = job.standing_since + left;
  return end > now_ ? end : now_ + std::max(now_ - job.started, kNanosPerSecond);
}

Nanos PowerRoom::time_left(const JobSpec& job) const {
  return std::max(job.estimate - served_time((*jobs_)[job.id]), kNanosPerSecond);
}

void PowerRoom::begin_pass(const Observation& seen) {
  now_ = seen.now;
  jobs_ = &seen.jobs;
  runs_.clear();
  refused_.clear();
  reserved_ = 0;
  reserved_from_ = kNever;
  for (const JobInfo& job : seen.jobs) {
    const GpuRuns& gpus = granted_gpus(job);
    if (!gpus.empty()) {
      const Nanos end = job.is_placed() ? expected_end(job) : now_ + time_left(job.spec);
      runs_.push_back({end, static_cast<std::uint32_t>(gpus.size())});
    }
  }
}

bool PowerRoom::has_room_at(std::uint32_t gpus, Nanos at) const {
  const std::uint32_t most = most_gpus(at);
  std::uint64_t need = gpus;
  for (const Run& run : runs_) need += run.end > at && run.gpus <= most ? run.gpus : 0;
  if (at >= reserved_from_ && reserved_ <= most) need += reserved_;
  return need <= most;
}

bool PowerRoom::has_room(std::uint32_t gpus, Nanos begin, Nanos end) const {
  const Nanos last = limits_.settled_time(begin, kRounds);
  for (Nanos at = begin; at < end && at <= last; at = limits_.next_change(at)) {
    if (!has_room_at(gpus, at)) return false;
  }
  // The reservation may begin between two changes of the limits.
  const bool meets = reserved_from_ > begin && reserved_from_ < end;
  return !meets || has_room_at(gpus, reserved_from_);
}

Nanos PowerRoom::earliest_start(std::uint32_t gpus, Nanos takes) const {
  std::vector<Nanos> starts;
  Nanos latest = now_;
  for (const Run& run : runs_) {
    starts.push_back(run.end);
    latest = std::max(latest, run.end);
  }
  const Nanos last = limits_.settled_time(latest, 2);
  for (Nanos at = limits_.next_change(now_); at <= last && at < kNever;) {
    starts.push_back(at);
    at = limits_.next_change(at);
  }
  std::sort(starts.begin(), starts.end());
  for (const Nanos start : starts) {
    if (has_room(gpus, start, start + takes)) return start;
  }
  return kNever;
}

bool PowerRoom::would_fit_alone(std::uint32_t gpus, Nanos takes) const {
  if (gpus <= lowest_) return true;
  const Nanos last = limits_.settled_time(now_, 2);
  for (Nanos begin = now_; begin <= last && begin < kNever; begin = limits_.next_change(begin)) {
    const Nanos end = std::min(begin + takes, limits_.settled_time(begin, kRounds) + 1);
    Nanos at = begin;
    while (at < end && most_gpus(at) >= gpus) at = limits_.next_change(at);
    if (at >= end) return true;
  }
  return false;
}

bool PowerRoom::admit_job(const JobSpec& job) {
  if (empty()) return true;
  const Nanos takes = time_left(job);
  if (has_room(job.gpus, now_, now_ + takes) || !would_fit_alone(job.gpus, takes)) return true;
  if (refused_.empty()) {
    reserved_from_ = earliest_start(job.gpus, takes);
    reserved_ = job.gpus;
  }
  refused_.push_back(job.id);
  return false;
}

void PowerRoom::add_start(const JobSpec& job) {
  if (!empty()) runs_.push_back({now_ + time_left(job), job.gpus});
}

std::optional<Nanos> PowerRoom::retry_time() const {
  if (refused_.empty()) return {};
  const Nanos next = limits_.next_change(now_);
  return next == kNever ? std::nullopt : std::optional(next);
}

std::optional<Nanos> PowerRoom::expected_start(JobId job) const {
  if (refused_.empty()) return {};
  if (refused_.front() == job) return reserved_from_;
  const bool refused = std::find(refused_.begin(), refused_.end(), job) != refused_.end();
  return refused ? std::optional(limits_.next_change(now_)) : std::nullopt;
}

}  // namespace orrery
