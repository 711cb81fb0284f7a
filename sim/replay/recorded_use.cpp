#include "sim/replay/recorded_use.hpp"

#include <algorithm>
#include <limits>

namespace orrery::sim {
namespace {

/// Returns the thousandths of GPUs that a job asks for.
std::int64_t milli_gpus(const TraceJob& job) {
  return job.milli > 0 ? job.milli : std::int64_t{job.gpus} * 1000;
}

}  // namespace

void RecordedUse::add(const TraceJob& job) {
  if (job.recorded_start_s < 0) return;
  for (Use* const use : {&all_, &by_vc_[job.pool]}) {
    use->changes[job.recorded_start_s] += milli_gpus(job);
    use->changes[job.recorded_start_s + job.duration_s] -= milli_gpus(job);
  }
}

void RecordedUse::Use::settle_steps() {
  if (changes.empty()) return;
  std::int64_t now = 0;
  for (const auto& [second, change] : changes) {
    now += change;
    most = std::max(most, now);
    steps.emplace_back(second, now);
  }
  changes.clear();
}

/// Returns the index after the step that is valid at `second`: 0 before the first.
std::size_t RecordedUse::Use::at(std::int64_t second) const {
  const auto behind =
      std::upper_bound(steps.begin(), steps.end(), second,
                       [](std::int64_t t, const auto& step) { return t < step.first; });
  return static_cast<std::size_t>(behind - steps.begin());
}

std::int64_t RecordedUse::Use::until(std::size_t step) const {
  return step < steps.size() ? steps[step].first : std::numeric_limits<std::int64_t>::max();
}

RecordedUse::Reasons RecordedUse::reasons(const TraceJob& job, std::int64_t begin,
                                          std::int64_t end) const {
  Use& vc = by_vc_[job.pool];
  all_.settle_steps();
  vc.settle_steps();
  Reasons out;
  std::size_t in_all = all_.at(begin), in_vc = vc.at(begin);
  while (begin < end) {
    const std::int64_t until = std::min({end, all_.until(in_all), vc.until(in_vc)});
    const std::int64_t need = milli_gpus(job);
    std::int64_t& reason = all_.used_before(in_all) + need > all_milli_ ? out.full_s
                           : vc.used_before(in_vc) + need > vc.most ? out.quota_s
                                                             : out.room_s;
    reason += until - begin;
    begin = until;
    in_all += all_.until(in_all) == until ? 1 : 0;
    in_vc += vc.until(in_vc) == until ? 1 : 0;
  }
  return out;
}

}  // namespace orrery::sim
