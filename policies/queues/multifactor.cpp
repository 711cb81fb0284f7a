#include "policies/queues/multifactor.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <tuple>
#include <utility>

#include "policies/parameters.pb.h"
#include "policies/seam/byte_archive.hpp"

namespace orrery {
namespace {

/// Returns the instant at which a job is expected to end. A job that outlives its estimate is
/// expected to run as long again as it has run.
Nanos expected_end(Nanos estimate, Nanos served, Nanos now) {
  return served <= estimate ? now + estimate - served : now + served;
}

}  // namespace

void MultifactorPolicy::start(Context& context, const Cluster& cluster,
                              const google::protobuf::Message* parameters) {
  RankedPolicy::start(context, cluster, parameters);
  const auto& given = dynamic_cast<const MultifactorParameters&>(*parameters);
  for (const auto& share : given.shares()) shares_[share.vc()] = share.shares();
  half_life_s_ = to_seconds(given.half_life());
  max_age_s_ = to_seconds(given.max_age());
  fair_share_weight_ = given.fair_share_weight();
  age_weight_ = given.age_weight();
  size_weight_ = given.size_weight();
  all_gpus_ = cluster.gpus();
}

bool MultifactorPolicy::is_due(Nanos now) {
  now_ = now;
  return false;
}

double MultifactorPolicy::counted(double seconds, std::uint32_t gpus) const {
  const double life = half_life_s_ / std::numbers::ln2;
  return gpus * life * (1 - std::exp2(-seconds / half_life_s_));
}

/// A job counts as one run up to its end: this policy takes no GPUs away.
void MultifactorPolicy::on_job_end(const JobInfo& job) {
  const std::uint32_t gpus = std::max(1u, job.spec.gpus);
  Usage& used = used_[job.spec.pool];
  used.gpu_s *= std::exp2(-to_seconds(now_ - used.at) / half_life_s_);
  used.gpu_s += counted(job.gpu_seconds / gpus, gpus);
  used.at = now_;
}

std::vector<double> MultifactorPolicy::fair_shares(const Jobs& jobs, Nanos now) const {
  std::vector<double> used(pools().size()), shares(pools().size());
  double all_used = 0, all_shares = 0;
  for (const auto& [name, number] : pools()) {
    const auto given = shares_.find(name);
    all_shares += shares[number] = given == shares_.end() ? 1 : given->second;
    const auto known = used_.find(name);
    if (known == used_.end()) continue;
    used[number] =
        known->second.gpu_s * std::exp2(-to_seconds(now - known->second.at) / half_life_s_);
  }
  for (const Track* const job : jobs) {
    if (job->running) used[job->pool] += counted(to_seconds(job->service_at(now)), job->gpus);
  }
  for (const double each : used) all_used += each;
  std::vector<double> factors(used.size(), 1);
  for (std::size_t i = 0; i < used.size() && all_used > 0; ++i) {
    factors[i] = shares[i] > 0 ? std::exp2(-(used[i] / all_used) / (shares[i] / all_shares)) : 0;
  }
  return factors;
}

MultifactorPolicy::Reservation MultifactorPolicy::reserve(const Track& job, const Jobs& running,
                                                          std::uint64_t gpus, Nanos now) {
  std::vector<std::pair<Nanos, std::uint32_t>> ends;
  for (const Track* const each : running) {
    ends.emplace_back(expected_end(each->estimate, each->service_at(now), now), each->gpus);
  }
  std::sort(ends.begin(), ends.end());
  for (const auto& [at, released] : ends) {
    gpus += released;
    if (gpus >= job.gpus) return {at, gpus - job.gpus};
  }
  return {};
}

RankedPolicy::Jobs MultifactorPolicy::select_jobs(const Jobs& jobs, std::uint64_t gpus,
                                                  Nanos now) {
  const std::vector<double> factors = fair_shares(jobs, now);
  Jobs selected;
  std::vector<Ranked> waiting;
  for (Track* const job : jobs) {
    if (job->running) {
      gpus -= job->gpus;
      selected.push_back(job);
      continue;
    }
    const double age = std::min(1.0, to_seconds(now - job->submit) / max_age_s_);
    const double priority = std::round(fair_share_weight_ * factors[job->pool]) +
                            std::round(age_weight_ * age) +
                            std::round(size_weight_ * job->gpus / all_gpus_);
    waiting.push_back({priority, static_cast<std::uint32_t>(waiting.size()), job});
  }
  std::sort(waiting.begin(), waiting.end(), [](const Ranked& a, const Ranked& b) {
    return std::tuple(-a.key, a.job->submit, a.place) < std::tuple(-b.key, b.job->submit, b.place);
  });
  std::optional<Reservation> reserved;
  for (const auto& [priority, place, job] : waiting) {
    if (job->gpus > gpus) {
      if (!reserved) reserved = reserve(*job, selected, gpus, now);
      continue;
    }
    const bool is_short = !reserved || job->estimate <= reserved->shadow - now;
    if (!is_short && job->gpus > reserved->extra) continue;
    if (!is_short) reserved->extra -= job->gpus;
    gpus -= job->gpus;
    selected.push_back(job);
  }
  return selected;
}

void MultifactorPolicy::save(Archive& archive) const {
  ByteWriter write(archive);
  write(static_cast<std::uint64_t>(used_.size()));
  for (const auto& [name, used] : used_) {
    write(name);
    write(used.gpu_s, used.at);
  }
  RankedPolicy::save(archive);
}

void MultifactorPolicy::load(const Archive& archive) {
  ByteReader read(archive);
  std::uint64_t count = 0;
  read(count);
  for (used_.clear(); count > 0; --count) {
    std::string name;
    read(name);
    Usage& used = used_[name];
    read(used.gpu_s, used.at);
  }
  RankedPolicy::load(archive);
}

}  // namespace orrery
