// Slurm in memory for tests: it answers as the real one and carries out the lines of scontrol that
// live/slurm sends. Time passes only when the test says so.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "live/slurm/commands.hpp"

namespace orrery::live {

/// Job of a FakeSlurm; the fields are those of squeue.
struct FakeJob {
  std::int64_t submit = 1000, eligible = 1020;
  std::string state = "PENDING", partition = "orrery", account = "ours", user = "alice";
  std::uint32_t nodes = 1, per_node = 1, restarts = 0;
  std::vector<std::string> placed_on = {}, required = {};
  bool held = false;
  std::string reason = "BeginTime", dependency = "(null)", comment = {};
};

/// Slurm with nodes n1, n2, ... of four GPUs.
class FakeSlurm : public SlurmCommands {
 public:
  explicit FakeSlurm(std::uint32_t nodes = 4) {
    for (std::uint32_t n = 1; n <= nodes; ++n) nodes_[fmt::format("n{}", n)] = "IDLE";
  }

  std::map<std::string, FakeJob> jobs;
  std::vector<std::string> executed;    ///< lines of scontrol so far
  std::vector<std::string> complaints;  ///< complaints of the next execute_commands()
  std::int64_t now = 1000, boot = 500;
  std::string broken;  ///< answer of the next read_jobs() instead of the jobs

  void set_node(const std::string& name, const std::string& state) { nodes_[name] = state; }
  /// Starts all jobs that may start, as Slurm does: on their required nodes, if their number fits.
  void schedule() {
    for (auto& [id, job] : jobs) {
      if (job.state != "PENDING" || job.held || job.eligible > now) continue;
      if (!job.required.empty() && job.required.size() != job.nodes) {
        job.held = true;
        job.reason = "BadConstraints";
        continue;
      }
      job.state = "RUNNING";
      job.placed_on = job.required;
      for (const auto& [name, state] : nodes_) {
        if (job.placed_on.size() < job.nodes) job.placed_on.push_back(name);
      }
    }
  }

  std::string read_jobs() override {
    if (!broken.empty()) {
      const std::string answer = broken;
      broken.clear();
      if (answer == "fail") throw Error(ErrorKind::environment, "squeue: no answer");
      return answer;
    }
    std::string text;
    for (const auto& [id, job] : jobs) {
      text += fmt::format(
          "{}|{}|{}|{}|{}|{}|{}|1:00|{}|{}|gres:gpu:{}|N/A|N/A|1|{}|{}|{}|{}|{}|\n", id,
          job.submit, job.state, job.user, job.account, job.partition, job.eligible, job.nodes,
          fmt::join(job.placed_on, ","), job.per_node, fmt::join(job.required, ","),
          job.held ? 0 : 100, job.reason, job.restarts, job.dependency);
    }
    return text;
  }
  std::string read_nodes() override {
    std::string text;
    for (const auto& [name, state] : nodes_) {
      text += fmt::format("NodeName={} Gres=gpu:4 State={} Partitions=orrery,other\n", name, state);
    }
    return text;
  }
  std::string read_topology() override {
    throw Error(ErrorKind::environment, "scontrol: no topology");
  }
  std::string read_configuration() override { return fmt::format("BOOT_TIME = {}\n", boot); }
  std::string read_comments(const std::vector<std::string>& ids) override {
    std::string text;
    for (const std::string& id : ids) {
      if (jobs.contains(id)) text += fmt::format("{}|{}|\n", id, jobs[id].comment);
    }
    return text;
  }
  std::string read_ends(const std::vector<std::string>&) override {
    throw Error(ErrorKind::environment, "sacct: Slurm accounting storage is disabled");
  }
  std::vector<std::string> execute_commands(const std::vector<std::string>& lines) override {
    for (const std::string& line : lines) execute_line(line);
    return std::exchange(complaints, {});
  }
  std::vector<std::string> execute_updates(
      const std::vector<std::vector<std::string>>& updates) override {
    for (const std::vector<std::string>& words : updates) {
      executed.push_back(fmt::format("{}", fmt::join(words, " ")));
      for (std::size_t i = 2; i < words.size(); ++i) set_field(jobs[words[1].substr(6)], words[i]);
    }
    return {};
  }

 private:
  static std::vector<std::string> split_text(const std::string& text, char separator) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(separator, begin), text.size());
      if (end > begin) parts.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    return parts;
  }
  void execute_line(const std::string& line) {
    executed.push_back(line);
    const std::vector<std::string> words = split_text(line, ' ');
    if (words[0] == "release") {
      jobs[words[1]].held = false;
      jobs[words[1]].reason = "None";
    } else if (words[0] == "requeue") {
      FakeJob& job = jobs[words.back()];
      if (words[1] == "incomplete" && job.state != "RUNNING") return;
      job.state = "PENDING";
      job.placed_on.clear();
      job.submit = now;
      job.eligible = now + 121;
      ++job.restarts;
    } else {
      for (const std::string& id : split_text(words[1].substr(6), ',')) {
        for (std::size_t i = 2; i < words.size(); ++i) set_field(jobs[id], words[i]);
      }
    }
  }
  void set_field(FakeJob& job, const std::string& word) const {
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals), value = word.substr(equals + 1);
    if (key == "ReqNodeList") job.required = split_text(value, ',');
    if (key == "Comment") job.comment = value;
    if (key == "StartTime") {
      job.eligible = now + (value == "now" ? 0 : std::stoll(value.substr(4)));
    }
  }

  std::map<std::string, std::string> nodes_;
};

}  // namespace orrery::live
