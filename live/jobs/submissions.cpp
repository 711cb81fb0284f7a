#include "live/jobs/submissions.hpp"

#include <algorithm>
#include <utility>

namespace orrery::live {

Submissions::Submissions(std::vector<TraceJob> jobs, std::uint32_t gpus)
    : jobs_(std::move(jobs)), gpus_(gpus) {
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    if (fits(i)) order_.push_back(i);
  }
  std::stable_sort(order_.begin(), order_.end(), [this](std::size_t a, std::size_t b) {
    return jobs_[a].submit_s < jobs_[b].submit_s;
  });
}

Nanos Submissions::next() const {
  return has_submitted_all() ? kNever : job(came_).submit_s * kNanosPerSecond;
}

std::optional<std::uint32_t> Submissions::take_next(Nanos now) {
  if (has_submitted_all() || next() > now) return {};
  return came_++;
}

}  // namespace orrery::live
