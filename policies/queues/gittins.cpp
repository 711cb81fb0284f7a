#include "policies/queues/gittins.hpp"

#include <algorithm>
#include <utility>

#include "policies/parameters.pb.h"

namespace orrery {

void GittinsIndex::add_service(double took) {
  stale_ = true;
  newest_.push_back(took);
  sorted_.insert(std::upper_bound(sorted_.begin(), sorted_.end(), took), took);
  if (newest_.size() <= history_) return;
  sorted_.erase(std::lower_bound(sorted_.begin(), sorted_.end(), newest_.front()));
  newest_.pop_front();
}

void GittinsIndex::update_index() const {
  stale_ = false;
  const auto count = static_cast<std::uint32_t>(sorted_.size());
  points_.resize(count);
  double sum = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    sum += sorted_[i];
    points_[i] = {sorted_[i], sum, sum + static_cast<double>(count - 1 - i) * sorted_[i], i};
  }
  for (std::uint32_t i = count - 1; i-- > 0;) {
    std::uint32_t to = i + 1;
    // Behind a corner the hull is less steep.
    for (; points_[to].corner != to; to = points_[to].corner) {
      const Point &near = points_[to], &far = points_[near.corner];
      const double rise_near = to - i, rise_far = near.corner - i;
      if (rise_near * (far.all - points_[i].all) > rise_far * (near.all - points_[i].all)) break;
    }
    points_[i].corner = to;
  }
}

double GittinsIndex::of(double had) const {
  if (sorted_.empty()) return 0;
  if (stale_) update_index();
  const auto first = std::upper_bound(sorted_.begin(), sorted_.end(), had);
  if (first == sorted_.end()) return 0;
  const auto ended = static_cast<std::uint32_t>(first - sorted_.begin());
  const auto longer = static_cast<double>(sorted_.size() - ended);
  const double from = (ended == 0 ? 0 : points_[ended - 1].before) + longer * had;
  const auto rise = [ended](std::uint32_t to) { return static_cast<double>(to + 1 - ended); };
  const auto run = [&](std::uint32_t to) { return points_[to].all - from; };
  std::uint32_t best = ended;
  for (std::uint32_t next = points_[best].corner; next != best; next = points_[best].corner) {
    if (rise(next) * run(best) < rise(best) * run(next)) break;
    best = next;
  }
  return rise(best) / run(best);
}

void GittinsIndex::save(ByteWriter& write) const {
  write(std::vector<double>(newest_.begin(), newest_.end()));
}

void GittinsIndex::load(ByteReader& read) {
  read(sorted_);
  newest_.assign(sorted_.begin(), sorted_.end());
  std::sort(sorted_.begin(), sorted_.end());
  stale_ = true;
}

void GittinsPolicy::start(Context& context, const Cluster& cluster,
                          const google::protobuf::Message* parameters) {
  RankedPolicy::start(context, cluster, parameters);
  index_ = GittinsIndex(dynamic_cast<const GittinsParameters&>(*parameters).history());
}

void GittinsPolicy::save(Archive& archive) const {
  ByteWriter write(archive);
  index_.save(write);
  RankedPolicy::save(archive);
}

void GittinsPolicy::load(const Archive& archive) {
  ByteReader read(archive);
  index_.load(read);
  RankedPolicy::load(archive);
}

RankedPolicy::Jobs GittinsPolicy::select_jobs(const Jobs& jobs, std::uint64_t gpus, Nanos now) {
  const double of_new_ones = index_.of(0);  // most that wait
  std::vector<Ranked> index;
  index.reserve(jobs.size());
  for (Track* const job : jobs) {
    const double had = to_seconds(job->service_at(now)) * job->gpus;
    index.push_back({had == 0 ? of_new_ones : index_.of(had), job});
  }
  return highest_first(index, gpus);
}

}  // namespace orrery
