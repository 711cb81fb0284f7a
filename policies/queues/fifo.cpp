#include "policies/queues/fifo.hpp"

#include <algorithm>
#include <charconv>

#include "core/error.hpp"

namespace orrery {

void FifoPolicy::queue_up(const JobSpec& job) { cursor_ = std::min(cursor_, job.id.value); }

void FifoPolicy::drop_job(const JobSpec& job) {
  if (job.id.value == cursor_) ++cursor_;
}

std::optional<JobId> FifoPolicy::head(const JobTable& jobs) {
  for (; cursor_ < jobs.submitted(); ++cursor_) {
    const JobInfo* job = jobs.find({cursor_});
    if (job != nullptr && job->phase == JobPhase::waiting) return JobId{cursor_};
  }
  return {};
}

void FifoPolicy::save(Archive& archive) const { archive += std::to_string(cursor_); }

void FifoPolicy::load(const Archive& archive) {
  const char* const end = archive.data() + archive.size();
  const auto [stop, error] = std::from_chars(archive.data(), end, cursor_);
  if (error != std::errc{} || stop != end) {
    throw Error(ErrorKind::bad_input, "the saved state is not one of policy 'fifo'");
  }
}

}  // namespace orrery
