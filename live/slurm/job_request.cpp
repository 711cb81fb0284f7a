#include "live/slurm/job_request.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <utility>

namespace orrery::live {

void sort_by_submission(std::vector<SlurmJob>& jobs) {
  using Key = std::tuple<std::int64_t, std::uint64_t, std::size_t, std::string_view>;
  std::vector<std::pair<Key, std::size_t>> order;
  order.reserve(jobs.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const std::string& id = jobs[i].id;
    std::uint64_t number = 0;
    std::from_chars(id.data(), id.data() + id.size(), number);
    order.emplace_back(Key(jobs[i].submit_s, number, id.size(), id), i);
  }
  if (std::is_sorted(order.begin(), order.end())) return;
  std::sort(order.begin(), order.end());
  std::vector<SlurmJob> sorted;
  sorted.reserve(jobs.size());
  for (const auto& [key, i] : order) sorted.push_back(std::move(jobs[i]));
  jobs = std::move(sorted);
}

bool is_chosen(const SlurmRules& rules, const SlurmJob& row) {
  const auto allowed = [](const std::set<std::string>& names, const std::string& name) {
    return names.empty() || names.contains(name);
  };
  return allowed(rules.partitions, row.partition) && allowed(rules.accounts, row.account);
}

bool is_startable(const SlurmJob& row, const NodeMap& nodes) {
  const bool fits = row.gpus_per_node > 0 && row.gpus_per_node <= nodes.gpus_per_node() &&
                    row.nodes > 0 && row.nodes <= nodes.nodes() && !row.is_uneven;
  return fits && row.phase == SlurmPhase::pending && !row.is_held &&
         row.id.find('+') == std::string::npos;
}

const std::string& pool_of(const SlurmJob& row) {
  return row.account.empty() ? row.partition : row.account;
}

JobSpec request_of(const SlurmJob& row, const NodeMap& nodes) {
  const bool is_placed = row.phase == SlurmPhase::placed;
  const auto count =
      is_placed ? static_cast<std::uint32_t>(nodes.find_all(row.placed_on).size()) : row.nodes;
  JobSpec spec;
  spec.name = row.id;
  spec.title = row.name;
  spec.user = row.user;
  spec.pool = pool_of(row);
  spec.submit = row.submit_s * kNanosPerSecond;
  spec.estimate = row.limit_s * kNanosPerSecond;
  spec.gpus = row.gpus_per_node * count;
  spec.layout = {.tensor = row.gpus_per_node, .pipeline = count};
  return spec;
}

}  // namespace orrery::live
