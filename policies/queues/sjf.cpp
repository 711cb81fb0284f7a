#include "policies/queues/sjf.hpp"

#include "core/error.hpp"
#include "core/random.hpp"

namespace orrery {
namespace {

std::uint64_t hash_of(const JobSpec& job) {
  return Rng(Rng(job.id.value).next() ^ static_cast<std::uint64_t>(job.estimate)).next();
}

}  // namespace

void SjfPolicy::queue_up(const JobSpec& job) {
  if (queue_.emplace(job.estimate, job.id).second) digest_ ^= hash_of(job);
}

void SjfPolicy::drop_job(const JobSpec& job) {
  if (queue_.erase({job.estimate, job.id}) > 0) digest_ ^= hash_of(job);
}

std::optional<JobId> SjfPolicy::head(const JobTable&) {
  if (queue_.empty()) return {};
  return queue_.begin()->second;
}

void SjfPolicy::clear() {
  queue_.clear();
  digest_ = 0;
}

void SjfPolicy::save(Archive& archive) const {
  archive += std::to_string(queue_.size()) + " " + std::to_string(digest_);
}

void SjfPolicy::load(const Archive& archive) {
  if (archive.find(' ') == std::string::npos) {
    throw Error(ErrorKind::bad_input, "the saved state is not one of policy 'sjf'");
  }
  rebuild_later();
}

}  // namespace orrery
