// Names that users gave the jobs of a real scheduler, beside the scheduler's ids. Used by
// live/slurm/job_follower and live/kubernetes/gang_follower. One thread.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <utility>

namespace orrery::live {

/// Names of the newest jobs by their ids; several jobs may have one name. For example, "train" for
/// the job "4711".
class JobTitles {
 public:
  /// Stores the name of a new job, and forgets the oldest job beyond `kMost`.
  void add_title(const std::string& id, std::string title) {
    if (titles_.insert_or_assign(id, std::move(title)).second) order_.push_back(id);
    if (order_.size() <= kMost) return;
    titles_.erase(order_.front());
    order_.pop_front();
  }
  /// Returns the name of the job; empty for an unknown job.
  std::string title_of(const std::string& id) const {
    const auto found = titles_.find(id);
    return found == titles_.end() ? "" : found->second;
  }

  static constexpr std::size_t kMost = 100'000;

 private:
  std::map<std::string, std::string> titles_;
  std::deque<std::string> order_;  ///< oldest first
};

}  // namespace orrery::live
