#include "live/jobs/running_jobs.hpp"

#include <poll.h>

#include <algorithm>
#include <optional>

#include "core/error.hpp"

namespace orrery::live {

Nanos RunningJobs::ran_before(std::uint32_t number) const {
  const auto found = ran_before_.find(number);
  return found == ran_before_.end() ? 0 : found->second;
}

const JobProcess& RunningJobs::start(std::uint32_t number, const GpuRuns& gpus,
                                     const TraceClock& clock, Nanos now, Nanos duration) {
  const JobProcess::Order order{gpus, now, duration - ran_before(number), beat_};
  const auto entry = running_.emplace(number, Running{JobProcess(slots_, clock, order), now}).first;
  ++started_;
  return entry->second.process;
}

void RunningJobs::kill_job(std::uint32_t number, Nanos now) {
  const auto running = running_.find(number);
  ensure(running != running_.end(), "a job that leaves its GPUs has a process");
  running->second.process.kill_process();
  ran_before_[number] += now - running->second.since;
  running_.erase(running);
}

Nanos RunningJobs::first_end() const {
  Nanos first = kNever;
  for (const auto& [number, job] : running_) {
    if (const auto ended = job.process.end_time()) first = std::min(first, *ended);
  }
  return first;
}

bool RunningJobs::all_beyond(Nanos at) const {
  return std::all_of(running_.begin(), running_.end(), [at](const auto& entry) {
    const JobProcess& process = entry.second.process;
    return process.end_time().has_value() || process.alive_at() >= at;
  });
}

void RunningJobs::read_messages(std::chrono::nanoseconds at_most) {
  std::vector<pollfd> channels;
  for (const auto& [number, job] : running_) {
    if (!job.process.end_time()) channels.push_back({job.process.channel(), POLLIN, 0});
  }
  const timespec timeout{at_most.count() / 1'000'000'000, at_most.count() % 1'000'000'000};
  ppoll(channels.data(), channels.size(), &timeout, nullptr);
  for (auto& [number, job] : running_) {
    if (job.process.end_time()) continue;
    job.process.read_messages();
    const bool silent = !job.process.end_time() && job.process.silent() > patience_;
    if (silent) job.process.mark_failed();
  }
}

std::vector<RunningJobs::Ended> RunningJobs::reap_ended(Nanos now) {
  std::vector<Ended> ended;
  for (auto entry = running_.begin(); entry != running_.end();) {
    auto& [number, running] = *entry;
    const std::optional<Nanos> end = running.process.end_time();
    if (!end || *end > now) {
      ++entry;
      continue;
    }
    running.process.wait_for_exit();
    ended.push_back(
        {number, ran_before(number) + now - running.since, running.process.has_failed()});
    entry = running_.erase(entry);
  }
  return ended;
}

}  // namespace orrery::live
