#include "live/slurm/start_order.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace orrery::live {
namespace {

// A list of jobs costs slurmctld as much as a line for each, and the 100 lines that go to one
// scontrol must end within the deadline of a command: 500 jobs take about 2 s.
constexpr std::size_t kJobsInLine = 5;
constexpr std::int64_t kClockSlack_s = 2;  // Slurm counts whole seconds on its own clock

}  // namespace

OrderState state_of(const StartOrder& order, const SlurmJob& job, std::int64_t now_s,
                    std::int64_t patience_s) {
  if (job.has_bad_constraints()) return OrderState::refused;
  std::vector<std::string> nodes = job.required_nodes;
  std::sort(nodes.begin(), nodes.end());
  if (nodes != order.nodes || job.eligible_s > now_s + kClockSlack_s) return OrderState::lost;
  return now_s - order.since_s > patience_s ? OrderState::overdue : OrderState::waits;
}

std::string start_line(const std::string& id, const std::vector<std::string>& nodes,
                       const std::string& owner) {
  return fmt::format("update JobId={} ReqNodeList={} StartTime=now AdminComment={}", id,
                     fmt::join(nodes, ","), owner);
}

std::vector<std::string> lease_lines(const std::vector<std::string>& ids, std::int64_t lease_s) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < ids.size(); begin += kJobsInLine) {
    const std::size_t end = std::min(ids.size(), begin + kJobsInLine);
    lines.push_back(fmt::format("update JobId={} StartTime=now+{}",
                                fmt::join(ids.begin() + static_cast<std::ptrdiff_t>(begin),
                                          ids.begin() + static_cast<std::ptrdiff_t>(end), ","),
                                lease_s));
  }
  return lines;
}

std::string withdraw_line(const std::string& id, std::int64_t lease_s) {
  return fmt::format("update JobId={} ReqNodeList= StartTime=now+{} AdminComment=", id, lease_s);
}

std::string release_line(const std::string& id) { return "release " + id; }

std::string requeue_line(const std::string& id) { return "requeue incomplete " + id; }

}  // namespace orrery::live
