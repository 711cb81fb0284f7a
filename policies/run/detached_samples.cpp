#include "policies/run/detached_samples.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace orrery {
namespace {

template <class T>
void age(Sample<T>& sample, Nanos by) {
  if (sample.is_known()) sample.age += by;
}
template <class T>
void fill_from(Sample<T>& newer, const Sample<T>& older) {
  if (!newer.is_known()) newer = older;
}

void age(RankSample& sample, Nanos by) {
  age(sample.micro_batches_done, by);
  age(sample.micro_batch_time, by);
  age(sample.wait_time, by);
  age(sample.gradient_variance, by);
  age(sample.noise_scale, by);
}
void fill_from(RankSample& newer, const RankSample& older) {
  fill_from(newer.micro_batches_done, older.micro_batches_done);
  fill_from(newer.micro_batch_time, older.micro_batch_time);
  fill_from(newer.wait_time, older.wait_time);
  fill_from(newer.gradient_variance, older.gradient_variance);
  fill_from(newer.noise_scale, older.noise_scale);
}
bool same_place(const RankSample& a, const RankSample& b) { return a.rank == b.rank; }

void age(DeviceSample& sample, Nanos by) {
  age(sample.utilization, by);
  age(sample.memory_bandwidth, by);
  age(sample.memory_used, by);
  age(sample.power, by);
}
void fill_from(DeviceSample& newer, const DeviceSample& older) {
  fill_from(newer.utilization, older.utilization);
  fill_from(newer.memory_bandwidth, older.memory_bandwidth);
  fill_from(newer.memory_used, older.memory_used);
  fill_from(newer.power, older.power);
}
bool same_place(const DeviceSample& a, const DeviceSample& b) { return a.gpu == b.gpu; }

void age(LinkSample& sample, Nanos by) {
  age(sample.latency, by);
  age(sample.bandwidth, by);
}
void fill_from(LinkSample& newer, const LinkSample& older) {
  fill_from(newer.latency, older.latency);
  fill_from(newer.bandwidth, older.bandwidth);
}
bool same_place(const LinkSample& a, const LinkSample& b) {
  return a.from == b.from && a.to == b.to;
}

bool is_before(const RankSample& a, const RankSample& b) { return a.rank < b.rank; }
bool is_before(const DeviceSample& a, const DeviceSample& b) { return a.gpu < b.gpu; }
bool is_before(const LinkSample& a, const LinkSample& b) {
  return a.from < b.from || (a.from == b.from && a.to < b.to);
}

/// Adds newer samples to older ones, which are `by` nanoseconds older than their ages say.
template <class Each>
void merge(std::vector<Each>& older, std::vector<Each> newer, Nanos by) {
  if (older.empty()) {
    older = std::move(newer);
    return;
  }
  for (Each& sample : older) {
    age(sample, by);
    const auto place = std::find_if(newer.begin(), newer.end(), [&sample](const Each& other) {
      return same_place(other, sample);
    });
    if (place == newer.end()) {
      newer.push_back(sample);
    } else {
      fill_from(*place, sample);
    }
  }
  older = std::move(newer);
  std::stable_sort(older.begin(), older.end(),
                   [](const Each& a, const Each& b) { return is_before(a, b); });
}

template <class Each>
std::vector<Each> copy_of(std::span<const Each> samples) {
  return {samples.begin(), samples.end()};
}

}  // namespace

SamplesCopy copy_samples(const Observation& seen) {
  SamplesCopy copy{.at = seen.now, .jobs = {}};
  for (const JobInfo& job : seen.jobs) {
    const JobId id = job.spec.id;
    copy.jobs[id] = {.ranks = copy_of(seen.samples.ranks(id)),
                     .devices = copy_of(seen.samples.devices(id)),
                     .links = copy_of(seen.samples.links(id)),
                     .collectives = copy_of(seen.samples.collectives(id))};
  }
  return copy;
}

void DetachedSamples::add_observation(SamplesCopy copy) {
  if (std::exchange(was_read_, false)) pool_.jobs.clear();
  const Nanos by = copy.at - pool_.at;
  pool_.at = copy.at;
  for (auto& [id, newer] : copy.jobs) {
    SamplesCopy::OfJob& older = pool_.jobs[id];
    merge(older.ranks, std::move(newer.ranks), by);
    merge(older.devices, std::move(newer.devices), by);
    merge(older.links, std::move(newer.links), by);
    std::move(newer.collectives.begin(), newer.collectives.end(),
              std::back_inserter(older.collectives));
  }
}

RankSummary DetachedSamples::summary(JobId job, std::uint32_t latest) {
  return summarize(read(job).ranks, latest, slowest_);
}

}  // namespace orrery
