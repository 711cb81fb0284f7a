// Slurm in memory for tests: it answers as the real one and carries out the lines of scontrol that
// live/slurm sends. Time passes only when the test says so.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
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
  std::string reason = "BeginTime", dependency = "(null)", comment = {}, name = "job";
  std::string limit = "1:00";
  std::int64_t deadline = 0, start = 0, end = 0;
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
  std::vector<std::string> refused;     ///< no line that contains one of these has an effect
  std::string refused_job;              ///< message of sbatch, which then submits no job
  std::size_t keeper_readings = 0;
  std::int64_t now = 1000, boot = 500;
  std::string broken;  ///< answer of the next read_jobs() instead of the jobs

  void set_node(const std::string& name, const std::string& state) { nodes_[name] = state; }
  /// Starts all jobs that may start, as Slurm does: on their required nodes, if their number fits.
  /// A job that cannot meet its deadline any more ends instead, and jobs wait no more for its end.
  void schedule() {
    for (auto& [id, job] : jobs) {
      const bool is_due = job.state == "PENDING" && !job.held && job.eligible <= now;
      if (is_due && job.deadline > 0 && job.deadline < now + 60) job.state = "DEADLINE";
    }
    for (auto& [id, job] : jobs) {
      if (job.state != "PENDING" || job.held || job.eligible > now) continue;
      end_dependencies(job);
      if (job.dependency != "(null)") continue;
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
          "{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|gres:gpu:{}|N/A|N/A|1|{}|{}|{}|{}|{}|{:64.64}|\n", id,
          job.submit, job.state, job.user, job.account, job.partition, job.eligible, job.limit,
          job.nodes, fmt::join(job.placed_on, ","), job.per_node, fmt::join(job.required, ","),
          job.held ? 0 : 100, job.reason, job.restarts, job.dependency, job.name);
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
  std::string read_configuration() override {
    return fmt::format("Configuration data as of {}\nBOOT_TIME = {}\n", now, boot);
  }
  std::string read_comments(const std::vector<std::string>& ids) override {
    std::string text;
    for (const std::string& id : ids) {
      if (jobs.contains(id)) text += fmt::format("{}|{}|\n", id, jobs[id].comment);
    }
    return text;
  }
  std::string read_keepers() override {
    ++keeper_readings;
    std::string text;
    for (const auto& [id, job] : jobs) {
      if (job.name == "orrery-keeper") text += fmt::format("{}|{}|{}|\n", id, job.submit, job.user);
    }
    return text;
  }
  std::string submit_job(const std::vector<std::string>& words) override {
    executed.push_back(fmt::format("sbatch {}", fmt::join(words, " ")));
    if (!refused_job.empty()) throw Error(ErrorKind::environment, "sbatch: " + refused_job);
    FakeJob job{.submit = now, .per_node = 0};
    job.user = "orrery";
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words[i] == "-J") job.name = words[i + 1];
      if (words[i] == "-p") job.partition = words[i + 1];
      if (words[i].starts_with("--comment=")) job.comment = words[i].substr(10);
      if (words[i].starts_with("--begin=")) job.eligible = instant_of(words[i].substr(8));
      if (words[i].starts_with("--deadline=")) job.deadline = instant_of(words[i].substr(11));
    }
    const std::string id = std::to_string(next_id_++);
    jobs[id] = job;
    return id;
  }
  std::string read_run_times(const std::vector<std::string>& ids) override {
    std::string text;
    for (const std::string& id : ids) {
      const FakeJob& job = jobs.at(id);
      text += fmt::format("{}|{}|{}|{}|\n", id, job.state, job.start, job.end);
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
      if (is_refused(executed.back())) continue;
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
    if (is_refused(line)) return;
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
    if (key == "StartTime") job.eligible = instant_of(value);
    if (key == "Deadline") job.deadline = instant_of(value);
    if (key == "Dependency") {
      job.dependency = value.empty() ? "(null)" : "";
      for (const std::string& part : split_text(value, ',')) {
        job.dependency += (job.dependency.empty() ? "" : ",") + part + "(unfulfilled)";
      }
    }
  }
  /// Returns the instant of "now" or "now+20".
  std::int64_t instant_of(const std::string& text) const {
    return now + (text == "now" ? 0 : std::stoll(text.substr(4)));
  }
  bool is_refused(const std::string& line) const {
    return std::any_of(refused.begin(), refused.end(), [&](const std::string& part) {
      return line.find(part) != std::string::npos;
    });
  }
  /// Removes the jobs that are over from those for whose end `job` waits.
  void end_dependencies(FakeJob& job) const {
    std::string left;
    for (const std::string& part : split_text(job.dependency, ',')) {
      const bool is_end = part.starts_with("afterany:");
      const auto other = is_end ? jobs.find(part.substr(9, part.find('(') - 9)) : jobs.end();
      const bool waits = !is_end || (other != jobs.end() && (other->second.state == "PENDING" ||
                                                             other->second.state == "RUNNING"));
      if (waits) left += (left.empty() ? "" : ",") + part;
    }
    job.dependency = left.empty() ? "(null)" : left;
  }

  std::uint64_t next_id_ = 90001;
  std::map<std::string, std::string> nodes_;
};

}  // namespace orrery::live
