#include "traces/jobs/job_dependencies.hpp"

#include <algorithm>
#include <string_view>

namespace orrery {
namespace {

/// Calls `each` with every id between blanks.
template <class Each>
void for_each_id(std::string_view ids, Each&& each) {
  while (!ids.empty()) {
    const std::size_t end = std::min(ids.find(' '), ids.size());
    if (end > 0) each(ids.substr(0, end));
    ids.remove_prefix(std::min(end + 1, ids.size()));
  }
}

}  // namespace

JobDependencies job_dependencies(const std::vector<TraceJob>& jobs) {
  JobDependencies found;
  const auto waits = [](const TraceJob& job) { return !job.after.empty(); };
  if (std::none_of(jobs.begin(), jobs.end(), waits)) return found;
  std::map<std::string_view, std::size_t> rows;
  for (std::size_t row = 0; row < jobs.size(); ++row) rows.try_emplace(jobs[row].id.view(), row);
  for (std::size_t row = 0; row < jobs.size(); ++row) {
    std::vector<std::size_t> first;
    for_each_id(jobs[row].after.str(), [&](std::string_view id) {
      const auto known = rows.find(id);
      known == rows.end() ? void(++found.unknown) : first.push_back(known->second);
    });
    if (first.empty()) continue;
    std::sort(first.begin(), first.end());
    first.erase(std::unique(first.begin(), first.end()), first.end());
    found.after.emplace(row, std::move(first));
  }
  return found;
}

/// Returns the first row whose job can never enter the queue. Ends the jobs without dependencies,
/// then the jobs that wait only for ended ones, and so on: each remaining job waits for itself, or
/// for such a job.
std::optional<std::size_t> first_circular(const JobDependencies& dependencies) {
  std::map<std::size_t, std::size_t> missing;
  std::map<std::size_t, std::vector<std::size_t>> dependents;
  std::vector<std::size_t> ended;
  for (const auto& [row, first] : dependencies.after) {
    missing[row] = first.size();
    for (const std::size_t before : first) {
      dependents[before].push_back(row);
      if (!dependencies.after.contains(before)) ended.push_back(before);
    }
  }
  std::sort(ended.begin(), ended.end());
  ended.erase(std::unique(ended.begin(), ended.end()), ended.end());
  while (!ended.empty()) {
    const std::size_t row = ended.back();
    ended.pop_back();
    for (const std::size_t dependent : dependents[row]) {
      if (--missing[dependent] == 0) ended.push_back(dependent);
    }
  }
  for (const auto& [row, count] : missing) {
    if (count > 0) return row;
  }
  return {};
}

}  // namespace orrery
