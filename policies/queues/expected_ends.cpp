#include "policies/queues/expected_ends.hpp"

#include <algorithm>

namespace orrery {

void ExpectedEnds::record_start(JobId job, std::uint32_t gpus, Nanos since, Nanos estimate) {
  const Run run{since, {since + estimate, gpus, job}};
  const auto [known, fresh] = runs_.find_or_add(job);
  if (!fresh) {
    if (known->since == since) return;
    ends_.erase(known->end);
  }
  *known = run;
  ends_.insert(run.end);
}

Nanos ExpectedEnds::remove_job(JobId job) {
  const Run* const run = runs_.find(job);
  if (run == nullptr) return kNever;
  const Nanos expected = run->end.at;
  ends_.erase(run->end);
  runs_.remove_job(job);
  return expected;
}

void ExpectedEnds::clear() {
  ends_.clear();
  runs_.clear();
}

bool ExpectedEnds::extend_overdue(Nanos now) {
  bool any = false;
  while (!ends_.empty() && ends_.begin()->at < now) {
    Run& run = runs_.at(ends_.begin()->job);
    ends_.erase(ends_.begin());
    run.end.at = now + std::max(now - run.since, kNanosPerSecond);
    ends_.insert(run.end);
    any = true;
  }
  return any;
}

}  // namespace orrery
