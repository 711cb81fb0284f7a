#include "policies/run/detached_samples.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <tuple>
#include <utility>

namespace orrery {
namespace {

auto values_of(RankSample& sample) {
  return std::tie(sample.micro_batches_done, sample.micro_batch_time, sample.wait_time,
                  sample.gradient_variance, sample.noise_scale, sample.input_wait);
}
auto values_of(DeviceSample& sample) {
  return std::tie(sample.utilization, sample.memory_bandwidth, sample.memory_used, sample.power);
}
auto values_of(LinkSample& sample) { return std::tie(sample.latency, sample.bandwidth); }

bool same_place(const RankSample& a, const RankSample& b) { return a.rank == b.rank; }
bool same_place(const DeviceSample& a, const DeviceSample& b) { return a.gpu == b.gpu; }
bool same_place(const LinkSample& a, const LinkSample& b) {
  return a.from == b.from && a.to == b.to;
}

/// Adds `by` nanoseconds to the ages of the known values.
template <class Each>
void age(Each& sample, Nanos by) {
  const auto age_one = [by](auto& value) {
    if (value.is_known()) value.age += by;
  };
  std::apply([&](auto&... value) { (age_one(value), ...); }, values_of(sample));
}

/// Gives the unknown values of `newer` those of `older`.
template <class Each>
void fill_from(Each& newer, Each& older) {
  const auto into = values_of(newer), from = values_of(older);
  const auto fill_one = [](auto& value, const auto& known) {
    if (!value.is_known()) value = known;
  };
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    (fill_one(std::get<i>(into), std::get<i>(from)), ...);
  }(std::make_index_sequence<std::tuple_size_v<decltype(from)>>());
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
  return summarize(*this, job, latest, slowest_);
}

}  // namespace orrery
