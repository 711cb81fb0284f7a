#include "live/slurm/start_order.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace orrery::live {
namespace {

// A list of jobs costs slurmctld as much as a line for each, and the 100 lines that go to one
// scontrol must end within the deadline of a command: 500 jobs take about 2 s.
constexpr std::size_t kJobsInLine = 5;
constexpr std::int64_t kClockSlack_s = 2;  // Slurm counts whole seconds on its own clock
constexpr std::string_view kMark = "[orrery:";
constexpr std::size_t kLongestComment = 1000;  // slurmctld refuses more than 1,024 bytes

/// Returns the place of the mark at the end of a Comment; npos without one.
std::size_t find_mark(std::string_view comment) {
  const std::size_t at = comment.rfind(kMark);
  if (at == std::string_view::npos || !comment.ends_with(']')) return std::string_view::npos;
  const std::string_view number = comment.substr(at + kMark.size());
  const bool is_number = number.size() > 1 &&
                         number.find_first_not_of("0123456789") == number.size() - 1;
  const bool is_apart = at == 0 || comment[at - 1] == ' ';
  return is_number && is_apart ? at : std::string_view::npos;
}

}  // namespace

OrderState state_of(const StartOrder& order, const SlurmJob& job, std::int64_t now_s,
                    std::int64_t patience_s) {
  if (job.is_refused()) return OrderState::refused;
  std::vector<std::string> nodes = job.required_nodes;
  std::sort(nodes.begin(), nodes.end());
  if (nodes != order.nodes || job.eligible_s > now_s + kClockSlack_s) return OrderState::lost;
  return now_s - order.since_s > patience_s ? OrderState::overdue : OrderState::waits;
}

SlurmLine start_line(const std::string& id, const std::vector<std::string>& nodes,
                     const std::string& owner, const std::optional<std::string>& dependency) {
  return {fmt::format("update JobId={} ReqNodeList={} StartTime=now{}", id, fmt::join(nodes, ","),
                      dependency ? " Dependency=" + *dependency : ""),
          id, owner};
}

std::vector<std::string> update_lines(const std::vector<std::string>& ids,
                                      const std::string& fields) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < ids.size(); begin += kJobsInLine) {
    const std::size_t end = std::min(ids.size(), begin + kJobsInLine);
    lines.push_back(fmt::format("update JobId={} {}",
                                fmt::join(ids.begin() + static_cast<std::ptrdiff_t>(begin),
                                          ids.begin() + static_cast<std::ptrdiff_t>(end), ","),
                                fields));
  }
  return lines;
}

std::vector<std::string> lease_lines(const std::vector<std::string>& ids, std::int64_t lease_s) {
  return update_lines(ids, fmt::format("StartTime=now+{}", lease_s));
}

SlurmLine withdraw_line(const std::string& id, std::int64_t lease_s) {
  return {fmt::format("update JobId={} ReqNodeList= StartTime=now+{}", id, lease_s), id, {}};
}

std::string release_line(const std::string& id) { return "release " + id; }

std::string requeue_line(const std::string& id) { return "requeue incomplete " + id; }

std::string owner_in(std::string_view comment) {
  const std::size_t at = find_mark(comment);
  if (at == std::string_view::npos) return {};
  return std::string(comment.substr(at + 1, comment.size() - at - 2));
}

std::optional<std::string> marked_comment(std::string_view comment, const std::string& owner) {
  std::string text(comment);
  if (const std::size_t at = find_mark(comment); at != std::string_view::npos) {
    text.resize(at == 0 ? 0 : at - 1);
  }
  if (owner.empty()) return text;
  text += fmt::format("{}[{}]", text.empty() ? "" : " ", owner);
  return text.size() > kLongestComment ? std::nullopt : std::optional(std::move(text));
}

}  // namespace orrery::live
