#include "live/slurm/slurm_cluster.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

constexpr std::size_t kJobsAtOnce = 5000;  // their ids fit into one argument of a process
// Letters that a line of scontrol can hold.
constexpr const char* kPlain =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789[]:_-./+@,";

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream words(line);
  return {std::istream_iterator<std::string>(words), {}};
}

/// Calls `use` with the ids of jobs, at most kJobsAtOnce at a time.
template <typename Use>
void for_each_block(const std::vector<std::string>& ids, const Use& use) {
  for (auto begin = ids.begin(); begin != ids.end();) {
    const auto end =
        begin + std::min(ids.end() - begin, static_cast<std::ptrdiff_t>(kJobsAtOnce));
    use(std::vector<std::string>(begin, end));
    begin = end;
  }
}

/// Returns the Comments of those of the jobs that Slurm shows, by id.
std::map<std::string, std::string> comments_of(SlurmCommands& commands,
                                               const std::vector<std::string>& ids) {
  std::map<std::string, std::string> all;
  const auto read = [&](const std::vector<std::string>& some) {
    try {
      const auto comments = parse_comments(commands.read_comments(some), some);
      if (comments) all.insert(comments->begin(), comments->end());
      return comments.has_value();
    } catch (const Error&) {
      return true;  // the jobs are gone, or Slurm does not answer: their Comments stay
    }
  };
  for_each_block(ids, [&](const std::vector<std::string>& some) {
    if (read(some)) return;
    for (const std::string& id : some) read({id});
  });
  return all;
}

}  // namespace

SlurmCluster::SlurmCluster(SlurmCommands& commands, const Options& options)
    : QueueCluster(
          "Slurm",
          NodeMap(managed_nodes(parse_nodes(commands.read_nodes()), options.rules.partitions)), 0,
          options),
      commands_(commands),
      keepers_(commands),
      rules_(options.rules),
      follower_(world(), nodes(), rules_, *this) {}

bool SlurmCluster::read_cluster() {
  const Nanos before = wall_clock();
  const SlurmConfiguration slurmctld = parse_configuration(commands_.read_configuration());
  const Nanos after = wall_clock();
  std::vector<SlurmNode> nodes = parse_nodes(commands_.read_nodes());
  read_jobs_ = keepers_.read_jobs();
  read_nodes_ = std::move(nodes);
  read_boot_s_ = slurmctld.boot_s;
  if (clock_.compare_clocks(slurmctld.now_s, before, after)) report(clock_.describe_difference());
  return true;
}

void SlurmCluster::show_changes(std::int64_t now_s) {
  if (boot_s_ != 0 && read_boot_s_ != boot_s_) {
    report(fmt::format("slurmctld was restarted at {}: all orders are compared with its state",
                       read_boot_s_));
  }
  boot_s_ = read_boot_s_;
  show_lost_parts(nodes().lost_parts({read_nodes_.begin(), read_nodes_.end()}));
  follower_.follow_jobs(std::move(read_jobs_), now_s, read_boot_s_);
}

std::string SlurmCluster::objection(const Assign& assign) const {
  return follower_.objection(assign);
}

void SlurmCluster::order(const Assign& assign, std::int64_t now_s) {
  follower_.order(assign, now_s);
}

void SlurmCluster::send_line(SlurmLine line) {
  if (rules_.acts) lines_.push_back(std::move(line));
}

void SlurmCluster::send_orders() {
  std::vector<SlurmLine> orders = std::exchange(lines_, {});
  if (orders.empty() || is_halted()) return;
  std::vector<std::string> ids, lines;
  for (const SlurmLine& order : orders) {
    if (!order.job.empty()) ids.push_back(order.job);
    mutable_counts().leases += order.text.find(" StartTime=now+") != std::string::npos;
  }
  const std::map<std::string, std::string> comments = comments_of(commands_, ids);
  std::vector<std::vector<std::string>> updates;
  for (SlurmLine& order : orders) {
    const auto found = comments.find(order.job);
    const auto comment =
        found == comments.end() ? std::nullopt : marked_comment(found->second, order.owner);
    if (!comment || *comment == found->second) {
      lines.push_back(std::move(order.text));
    } else if (comment->find_first_not_of(kPlain) == std::string::npos) {
      lines.push_back(order.text + " Comment=" + *comment);
    } else {
      updates.push_back(words_of(order.text));
      updates.back().push_back("Comment=" + *comment);
    }
  }
  std::vector<std::string> complaints = commands_.execute_updates(updates);
  for (std::string& each : commands_.execute_commands(lines)) complaints.push_back(std::move(each));
  for (const std::string& complaint : complaints) {
    ++mutable_counts().complaints;
    report("scontrol: " + complaint);
  }
}

void SlurmCluster::set_acting(bool acts) {
  rules_.acts = acts;
  follower_.set_acting(acts);
}

std::vector<SlurmEnd> SlurmCluster::find_ends(const std::vector<std::string>& ids) {
  try {
    return parse_ends(commands_.read_ends(ids));
  } catch (const Error&) {
    return {};  // Slurm keeps no accounts: the follower reports the job
  }
}

std::map<std::string, std::int64_t> SlurmCluster::find_run_times(
    const std::vector<std::string>& ids) {
  std::map<std::string, std::int64_t> all;
  for_each_block(ids, [&](const std::vector<std::string>& some) {
    try {
      all.merge(parse_run_times(commands_.read_run_times(some)));
    } catch (const Error&) {
      // Slurm does not answer: the readings tell how long these jobs ran.
    }
  });
  return all;
}

std::map<std::string, std::string> SlurmCluster::find_owners(const std::vector<std::string>& ids) {
  std::map<std::string, std::string> owners;
  for (const auto& [id, comment] : comments_of(commands_, ids)) {
    if (std::string owner = owner_in(comment); !owner.empty()) owners[id] = std::move(owner);
  }
  return owners;
}

std::optional<std::vector<SlurmKeeper>> SlurmCluster::find_keepers() {
  try {
    return keepers_.read_keepers();
  } catch (const Error&) {
    return {};  // the next reading reports why Slurm does not answer
  }
}

}  // namespace orrery::live
