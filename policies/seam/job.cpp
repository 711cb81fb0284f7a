#include "policies/seam/job.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {

std::vector<bool> lost_replicas(const JobInfo& job) {
  std::vector<bool> lost(job.layout.data);
  for (const RankId rank : job.lost) lost[job.layout.replica_of(rank)] = true;
  return lost;
}

bool can_go_on(const JobInfo& job) {
  if (job.phase != JobPhase::running) return false;
  if (job.shares().empty()) return job.lost.empty();
  return std::none_of(job.lost.begin(), job.lost.end(), [&job](RankId rank) {
    return job.shares()[job.layout.replica_of(rank)] > 0;
  });
}

Standing without_lost(const JobInfo& job) {
  const std::vector<bool> lost = lost_replicas(job);
  Standing left{.gpus = {}, .layout = job.layout};
  left.layout.data -= static_cast<std::uint32_t>(std::count(lost.begin(), lost.end(), true));
  const std::uint32_t row = job.layout.replica_stride();  // ranks of one replica
  std::uint32_t rank = 0;
  for (GpuRuns::Run run : job.gpus.runs()) {
    while (run.count > 0) {
      const std::uint32_t count = std::min(run.count, row - rank % row);
      if (!lost[job.layout.replica_of({rank})]) left.gpus.append_run({run.first, count});
      rank += count;
      run = {run.first + count, run.count - count};
    }
  }
  return left;
}

std::vector<std::uint32_t> even_split(std::uint32_t total, std::uint32_t parts) {
  std::vector<std::uint32_t> shares(parts);
  for (std::uint32_t i = 0; i < parts; ++i) shares[i] = total / parts + (i < total % parts ? 1 : 0);
  return shares;
}

std::uint32_t most_micro_batches(const JobSpec& job, const ParallelLayout& layout) {
  const std::uint64_t of_submission = job.layout.ranks_per_replica();
  const std::uint64_t scaled =
      std::uint64_t{job.max_micro_batches} * layout.ranks_per_replica() + of_submission - 1;
  return static_cast<std::uint32_t>(scaled / of_submission);
}

bool fits_replicas(const JobSpec& job, std::uint32_t micro_batches, const ParallelLayout& layout) {
  if (layout.data == 0) return false;
  const std::uint64_t most = most_micro_batches(job, layout);
  return most == 0 || micro_batches <= most * layout.data;
}

// ---- the table ----------------------------------------------------------------------------

const JobInfo& JobTable::operator[](JobId id) const {
  const JobInfo* job = find(id);
  if (job != nullptr) return *job;
  throw Error(ErrorKind::internal, fmt::format("job {} is not there", id.value));
}

JobInfo& JobTable::at(JobId id) { return const_cast<JobInfo&>((*this)[id]); }

JobInfo& JobTable::add(JobSpec spec) {
  const JobId id{submitted()};
  Entry& entry = *entries_.find_or_add(id).first;
  const std::uint32_t place = entries_.place_of(id);
  entry.before = last_;
  (last_ == kNone ? first_ : entries_.value(last_).next) = place;
  last_ = place;
  entry.job.spec = std::move(spec);
  return entry.job;
}

void JobTable::remove_job(JobId id) {
  const Entry& entry = *entries_.find(id);
  (entry.before == kNone ? first_ : entries_.value(entry.before).next) = entry.next;
  (entry.next == kNone ? last_ : entries_.value(entry.next).before) = entry.before;
  entries_.remove_job(id);
}

void JobTable::restore_jobs(const JobTable& earlier) {
  entries_.copy_from(earlier.entries_, [](Entry& to, const Entry& from) {
    if (to.job.spec.id != from.job.spec.id) {
      to = from;
      return;
    }
    static_cast<JobState&>(to.job) = from.job;
    to.before = from.before;
    to.next = from.next;
  });
  first_ = earlier.first_;
  last_ = earlier.last_;
}

}  // namespace orrery
