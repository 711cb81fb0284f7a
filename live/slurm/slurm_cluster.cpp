#include "live/slurm/slurm_cluster.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::live {

SlurmCluster::SlurmCluster(SlurmCommands& commands, const Options& options)
    : QueueCluster(
          "Slurm",
          NodeMap(managed_nodes(parse_nodes(commands.read_nodes()), options.rules.partitions)), 0,
          options),
      commands_(commands),
      rules_(options.rules),
      follower_(world(), nodes(), rules_, *this) {}

bool SlurmCluster::read_cluster() {
  const std::int64_t boot_s = parse_boot_time(commands_.read_configuration());
  std::vector<SlurmNode> nodes = parse_nodes(commands_.read_nodes());
  read_jobs_ = parse_jobs(commands_.read_jobs());
  read_nodes_ = std::move(nodes);
  read_boot_s_ = boot_s;
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

void SlurmCluster::send_line(std::string line) {
  if (rules_.acts) lines_.push_back(std::move(line));
}

void SlurmCluster::send_orders() {
  const std::vector<std::string> lines = std::exchange(lines_, {});
  if (lines.empty() || is_halted()) return;
  mutable_counts().leases += static_cast<std::uint64_t>(std::count_if(
      lines.begin(), lines.end(),
      [](const std::string& line) { return line.find(" StartTime=now+") != std::string::npos; }));
  for (const std::string& complaint : commands_.execute_commands(lines)) {
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

std::string SlurmCluster::find_owner(const std::string& id) {
  try {
    return parse_admin_comment(commands_.read_job(id));
  } catch (const Error&) {
    return {};  // the job is gone or Slurm does not answer: no order is touched
  }
}

}  // namespace orrery::live
