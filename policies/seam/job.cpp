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
  std::uint32_t slot = static_cast<std::uint32_t>(entries_.size());
  if (unused_.empty()) {
    entries_.emplace_back();
  } else {
    slot = unused_.back();
    unused_.pop_back();
    entries_[slot] = {};
  }
  slots_.push_back(slot);
  Entry& entry = entries_[slot];
  entry.before = last_;
  (last_ == kNone ? first_ : entries_[last_].next) = slot;
  last_ = slot;
  ++size_;
  entry.job.spec = std::move(spec);
  return entry.job;
}

void JobTable::remove_job(JobId id) {
  const std::uint32_t slot = std::exchange(slots_[id.value - base_], kNone);
  Entry& entry = entries_[slot];
  (entry.before == kNone ? first_ : entries_[entry.before].next) = entry.next;
  (entry.next == kNone ? last_ : entries_[entry.next].before) = entry.before;
  unused_.push_back(slot);
  --size_;
  for (; !slots_.empty() && slots_.front() == kNone; slots_.pop_front()) ++base_;
}

}  // namespace orrery
