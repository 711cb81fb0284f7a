#include "live/slurm/keeper_job.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace orrery::live {
namespace {

constexpr std::int64_t kDeadline_s = 30;  // less than the shortest time limit, one minute
constexpr std::string_view kAfterEnd = "afterany:";

/// Calls `visit` with each job of a dependency and its state: "afterok:1" and "(unfulfilled)".
template <class Visit>
void for_each_part(std::string_view dependency, const Visit& visit) {
  const auto end = dependency.end();
  for (auto part = dependency.begin(); part != end;) {
    const auto comma = std::find(part, end, ',');
    const auto open = std::find(part, comma, '(');
    if (part != comma) visit(std::string_view(part, open), std::string_view(open, comma));
    part = comma == end ? end : comma + 1;
  }
}

/// Returns the id of the job for whose end `part` waits; empty for another kind of dependency.
std::string_view awaited_job(std::string_view part) {
  if (!part.starts_with(kAfterEnd)) return {};
  const std::string_view id = part.substr(kAfterEnd.size());
  return id.find_first_not_of("0123456789") == std::string_view::npos ? id : std::string_view();
}

bool has_alternatives(std::string_view dependency) {
  return dependency.find('?') != std::string_view::npos;
}

bool may_have_keeper(const SlurmJob& job) {
  return job.phase == SlurmPhase::pending && !has_alternatives(job.dependency);
}

}  // namespace

std::string keeper_comment(const SlurmRules& rules) {
  return fmt::format("{} partitions={} accounts={}", kKeeperName, fmt::join(rules.partitions, "+"),
                     fmt::join(rules.accounts, "+"));
}

std::vector<std::string> keeper_words(const SlurmRules& rules) {
  std::vector<std::string> words{"--parsable", "-J", kKeeperName, "-n", "1", "-t", "1"};
  if (!rules.partitions.empty()) words.insert(words.end(), {"-p", *rules.partitions.begin()});
  for (const char* word :
       {"-D", "/", "-o", "/dev/null", "-e", "/dev/null", "--no-requeue", "--export=NONE"}) {
    words.emplace_back(word);
  }
  words.push_back(fmt::format("--begin=now+{}", rules.lease_s));
  words.push_back(fmt::format("--deadline=now+{}", rules.lease_s + kDeadline_s));
  words.push_back("--comment=" + keeper_comment(rules));
  words.insert(words.end(), {"--wrap", "true"});
  return words;
}

std::string keeper_line(const std::string& id, std::int64_t lease_s) {
  return fmt::format("update JobId={} StartTime=now+{} Deadline=now+{}", id, lease_s,
                     lease_s + kDeadline_s);
}

std::string plain_dependency(std::string_view dependency) {
  std::string plain;
  for_each_part(dependency, [&](std::string_view part, std::string_view state) {
    if (state == "(fulfilled)") return;
    plain += plain.empty() ? "" : ",";
    plain += part;
  });
  return plain;
}

bool can_wait_for_keeper(std::string_view dependency) {
  return !has_alternatives(dependency) && dependency.find("(failed)") == std::string_view::npos &&
         dependency.find("expand:") == std::string_view::npos;
}

// ---- readings -------------------------------------------------------------------------------

std::vector<SlurmJob> KeeperFinder::read_jobs() {
  std::vector<SlurmJob> jobs = parse_jobs(commands_.read_jobs());
  learn_keepers(jobs);
  for (SlurmJob& job : jobs) {
    if (job.dependency.empty() || !may_have_keeper(job)) continue;
    std::string others;
    for_each_part(job.dependency, [&](std::string_view part, std::string_view state) {
      const auto known = known_.find(awaited_job(part));
      if (known != known_.end() && known->second.is_keeper) {
        job.keeper = known->first;
        return;
      }
      others += others.empty() ? "" : ",";
      others.append(part).append(state);
    });
    job.dependency = std::move(others);
  }
  return jobs;
}

std::vector<SlurmKeeper> KeeperFinder::read_keepers() {
  std::vector<SlurmKeeper> keepers = parse_keepers(commands_.read_keepers());
  for (SlurmKeeper& keeper : keepers) {
    const auto comments = parse_comments(commands_.read_comments({keeper.id}), {keeper.id});
    if (comments && !comments->empty()) keeper.comment = comments->begin()->second;
  }
  return keepers;
}

/// Finds out which of the jobs that others wait for are keepers, as far as that is not known. A
/// known id that now belongs to another submission is unknown.
void KeeperFinder::learn_keepers(const std::vector<SlurmJob>& jobs) {
  std::set<std::string, std::less<>> awaited;
  for (const SlurmJob& job : jobs) {
    if (job.dependency.empty() || !may_have_keeper(job)) continue;
    for_each_part(job.dependency, [&](std::string_view part, std::string_view) {
      if (const std::string_view id = awaited_job(part); !id.empty()) awaited.emplace(id);
    });
  }
  std::map<std::string_view, std::int64_t> shown;
  for (const SlurmJob& job : jobs) {
    if (awaited.contains(job.id)) shown[job.id] = job.submit_s;
  }
  std::erase_if(known_, [&](const auto& entry) {
    const auto row = shown.find(entry.first);
    return !awaited.contains(entry.first) ||
           (row != shown.end() && row->second != entry.second.submit_s);
  });
  const bool are_known = std::all_of(awaited.begin(), awaited.end(),
                                     [&](const std::string& id) { return known_.contains(id); });
  if (are_known) return;
  const std::vector<SlurmKeeper> keepers = parse_keepers(commands_.read_keepers());
  for (const std::string& id : awaited) {
    const auto row = shown.find(id);
    known_.try_emplace(id, Known{false, row == shown.end() ? 0 : row->second});
  }
  for (const SlurmKeeper& keeper : keepers) {
    if (const auto known = known_.find(keeper.id); known != known_.end()) {
      known->second = {true, keeper.submit_s};
    }
  }
}

}  // namespace orrery::live
