#include "policies/scheduling/fair_shares.hpp"

#include <deque>
#include <utility>

#include "policies/parameters.pb.h"

namespace orrery {
namespace {

template <class Track>
struct Tenant {
  std::uint64_t used = 0;
  std::deque<const Track*> waits;  ///< in order
};

/// What is used of a quota; whoever has none comes last.
std::pair<bool, double> fullness(std::uint64_t used, std::uint64_t quota) {
  const auto all = static_cast<double>(quota);
  return {quota == 0, static_cast<double>(used) / (quota == 0 ? 1 : all)};
}

}  // namespace

RankedPolicy::Jobs DrfPolicy::select(const Jobs& jobs, std::uint64_t gpus, Nanos) {
  std::map<std::string, Tenant<Track>> tenants;
  Jobs selected;
  for (const Track* const job : jobs) {
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
    for (auto& [name, tenant] : tenants) {
      const bool next = !tenant.waits.empty() && tenant.waits.front()->gpus <= gpus;
      if (next && (least == nullptr || tenant.used < least->used)) least = &tenant;
    }
    if (least == nullptr) return selected;
    const Track* const job = least->waits.front();
    least->waits.pop_front();
    least->used += job->gpus;
    gpus -= job->gpus;
    selected.push_back(job);
  }
}

void MaxMinPolicy::start(Context& context, const Cluster& cluster,
                         const google::protobuf::Message* parameters) {
  RankedPolicy::start(context, cluster, parameters);
  const auto& given = dynamic_cast<const MaxMinParameters&>(*parameters);
  for (const auto& quota : given.quotas()) given_[quota.vc()] = quota.gpus();
  borrows_ = given.borrow();
}

std::map<std::string, std::uint64_t> MaxMinPolicy::quotas(const Jobs& jobs,
                                                          std::uint64_t gpus) const {
  std::map<std::string, std::uint64_t> out;
  for (const Track* const job : jobs) out[job->pool] = 0;
  for (auto& [name, quota] : out) {
    if (given_.empty()) {
      quota = gpus / out.size();
    } else if (const auto known = given_.find(name); known != given_.end()) {
      quota = known->second;
    }
  }
  return out;
}

RankedPolicy::Jobs MaxMinPolicy::select(const Jobs& jobs, std::uint64_t gpus, Nanos) {
  const std::map<std::string, std::uint64_t> quota = quotas(jobs, gpus);
  std::map<std::string, Tenant<Track>> tenants;
  Jobs selected;
  const auto take = [&](Tenant<Track>& tenant, const Track* job) {
    tenant.used += job->gpus;
    gpus -= job->gpus;
    selected.push_back(job);
  };
  for (const Track* const job : jobs) {
    Tenant<Track>& tenant = tenants[job->pool];
    const bool own = tenant.used + job->gpus <= quota.at(job->pool) && job->gpus <= gpus;
    if (own) {
      take(tenant, job);
    } else {
      tenant.waits.push_back(job);
    }
  }
  while (borrows_) {
    Tenant<Track>* least = nullptr;
    std::pair<bool, double> least_full;
    for (auto& [name, tenant] : tenants) {
      // What does not fit now will not later in this pass.
      while (!tenant.waits.empty() && tenant.waits.front()->gpus > gpus) tenant.waits.pop_front();
      const auto here = fullness(tenant.used, quota.at(name));
      if (tenant.waits.empty() || (least != nullptr && here >= least_full)) continue;
      least = &tenant;
      least_full = here;
    }
    if (least == nullptr) break;
    const Track* const job = least->waits.front();
    least->waits.pop_front();
    take(*least, job);
  }
  return selected;
}

}  // namespace orrery
