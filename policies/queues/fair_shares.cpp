#include "policies/queues/fair_shares.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "policies/parameters.pb.h"

namespace orrery {
namespace {

template <class Track>
struct Tenant {
  std::uint64_t used = 0, quota = 0;
  std::vector<Track*> waits = {};  ///< waiting jobs in order
  std::size_t next = 0;            ///< index of the next one

  Track* first() const { return next < waits.size() ? waits[next] : nullptr; }
};

/// Returns the used fraction of a quota; a virtual cluster without a quota comes last.
std::pair<bool, double> fullness(std::uint64_t used, std::uint64_t quota) {
  const auto all = static_cast<double>(quota);
  return {quota == 0, static_cast<double>(used) / (quota == 0 ? 1 : all)};
}

/// Returns the jobs with running jobs before waiting ones, each by submission, then by id.
template <class Track>
std::vector<Track*> by_submission(std::vector<Track*> jobs) {
  const auto is_before = [](const Track* a, const Track* b) {
    return std::tuple(!a->running, a->submit, a->id) < std::tuple(!b->running, b->submit, b->id);
  };
  // Only jobs that have stopped are out of order.
  if (!std::is_sorted(jobs.begin(), jobs.end(), is_before)) {
    std::sort(jobs.begin(), jobs.end(), is_before);
  }
  return jobs;
}

/// Returns the order of virtual clusters with equal shares: that of their next jobs, as of any jobs
/// of equal rank.
template <class Track>
std::tuple<Nanos, JobId> turn_of(const Track& next) {
  return {next.submit, next.id};
}

}  // namespace

RankedPolicy::Jobs DrfPolicy::select_jobs(const Jobs& jobs, std::uint64_t gpus, Nanos) {
  std::vector<Tenant<Track>> tenants(pools().size());
  Jobs selected;
  for (Track* const job : by_submission(jobs)) {
    Tenant<Track>& tenant = tenants[job->pool];
    if (!job->running) {
      tenant.waits.push_back(job);
      continue;
    }
    tenant.used += job->gpus;
    gpus -= job->gpus;
    selected.push_back(job);
  }
  while (true) {
    Tenant<Track>* least = nullptr;
    for (Tenant<Track>& tenant : tenants) {
      const Track* const next = tenant.first();
      if (next == nullptr || next->gpus > gpus) continue;
      if (least != nullptr && std::tuple(least->used, turn_of(*least->first())) <
                                  std::tuple(tenant.used, turn_of(*next))) {
        continue;
      }
      least = &tenant;
    }
    if (least == nullptr) return selected;
    Track* const job = least->waits[least->next++];
    least->used += job->gpus;
    gpus -= job->gpus;
    selected.push_back(job);
  }
}

void MaxMinPolicy::start(Context& context, const Cluster& cluster,
                         const google::protobuf::Message* parameters) {
  RankedPolicy::start(context, cluster, parameters);
  const auto& given = dynamic_cast<const MaxMinParameters&>(*parameters);
  for (const auto& quota : given.quotas()) {
    given_[quota.vc()] = std::uint64_t{quota.gpus()} * cluster.shape().slices_per_gpu;
  }
  borrows_ = given.borrow();
}

/// Returns the quotas of the virtual clusters with jobs, indexed by their numbers.
std::vector<std::uint64_t> MaxMinPolicy::quotas(const Jobs& jobs, std::uint64_t gpus) const {
  std::vector<bool> there(pools().size());
  for (const Track* const job : jobs) there[job->pool] = true;
  const auto count = static_cast<std::uint64_t>(std::count(there.begin(), there.end(), true));
  std::vector<std::uint64_t> out(there.size());
  for (const auto& [name, number] : pools()) {
    if (!there[number]) continue;
    if (given_.empty()) {
      out[number] = gpus / count;
    } else if (const auto known = given_.find(name); known != given_.end()) {
      out[number] = known->second;
    }
  }
  return out;
}

RankedPolicy::Jobs MaxMinPolicy::select_jobs(const Jobs& jobs, std::uint64_t gpus, Nanos) {
  std::vector<Tenant<Track>> tenants;
  for (const std::uint64_t quota : quotas(jobs, gpus)) tenants.push_back({.quota = quota});
  Jobs selected;
  const auto take = [&](Tenant<Track>& tenant, Track* job) {
    tenant.used += job->gpus;
    gpus -= job->gpus;
    selected.push_back(job);
  };
  for (Track* const job : by_submission(jobs)) {
    Tenant<Track>& tenant = tenants[job->pool];
    if (tenant.used + job->gpus <= tenant.quota && job->gpus <= gpus) {
      take(tenant, job);
    } else {
      tenant.waits.push_back(job);
    }
  }
  while (borrows_ && gpus > 0) {
    Tenant<Track>* least = nullptr;
    std::tuple<std::pair<bool, double>, std::tuple<Nanos, JobId>> first;
    for (Tenant<Track>& tenant : tenants) {
      // A job that does not fit now does not fit later in this pass.
      while (tenant.first() != nullptr && tenant.first()->gpus > gpus) ++tenant.next;
      if (tenant.first() == nullptr) continue;
      const std::tuple here(fullness(tenant.used, tenant.quota), turn_of(*tenant.first()));
      if (least != nullptr && first < here) continue;
      least = &tenant;
      first = here;
    }
    if (least == nullptr) break;
    take(*least, least->waits[least->next++]);
  }
  return selected;
}

}  // namespace orrery
