// Follower of a Slurm in memory for tests: readings and decisions one by one, without a policy.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "live/slurm/job_follower.hpp"
#include "live/slurm/keeper_job.hpp"
#include "policies/run/registry.hpp"
#include "tests/live/slurm/fake_slurm.hpp"

namespace orrery::live {

inline Cluster four_nodes() {
  JobReplay replay;
  replay.set_nodes(4);
  replay.set_gpus_per_node(4);
  return cluster_of(replay);
}

/// World, follower and fake Slurm; read() is one reading.
class Followed : public SlurmOutlet {
 public:
  explicit Followed(SlurmRules rules = {.partitions = {"orrery"}, .owner = "orrery:7"})
      : follower(world_, nodes_, std::move(rules), *this) {}

  FakeSlurm slurm;
  std::vector<std::string> reports;
  std::vector<std::int64_t> ran_s;  ///< recorded times of the jobs that have ended

  /// Makes one reading at `now` and returns the names of its events.
  std::string read(std::int64_t now) {
    slurm.now = now;
    events_.clear();
    world_.begin_batch();
    follower.follow_jobs(keepers_.read_jobs(), now, slurm.boot);
    slurm.execute_commands(std::exchange(lines_, {}));
    return events_;
  }
  /// Orders the start of a job on GPUs, as an accepted decision does.
  std::string start(std::uint32_t job, GpuRuns gpus) {
    const Assign assign{{job}, std::move(gpus), world_.jobs()[{job}].spec.layout};
    if (std::string why = follower.objection(assign); !why.empty()) return why;
    const Decision decision{.id = decisions_++, .what = assign};
    world_.announce_decision(decision);
    world_.apply(Decided{decision.id, Outcome::applied, ""}, 0);
    follower.order(assign, slurm.now);
    slurm.execute_commands(std::exchange(lines_, {}));
    return {};
  }
  void stop(std::uint32_t job) {
    follower.order(Assign{.job = {job}}, slurm.now);
    slurm.execute_commands(std::exchange(lines_, {}));
  }
  const World& world() const { return world_; }

  void emit_event(Event event) override {
    world_.apply(event, 0);
    if (const auto* done = std::get_if<JobDone>(&event)) ran_s.push_back(done->ran / 1'000'000'000);
    constexpr std::array kNames{"step", "done",      "save",    "part",    "suspected", "lost",
                                "held", "submitted", "decided", "stopped", "started"};
    events_ += std::string(events_.empty() ? "" : " ") + kNames.at(event.index());
  }
  void send_line(SlurmLine line) override {
    if (!line.job.empty()) {
      std::string& comment = slurm.jobs[line.job].comment;
      comment = marked_comment(comment, line.owner).value();
    }
    lines_.push_back(std::move(line.text));
  }
  bool can_send() const override { return true; }
  void report(std::string text) override { reports.push_back(std::move(text)); }
  std::vector<SlurmEnd> find_ends(const std::vector<std::string>&) override { return {}; }
  std::map<std::string, std::int64_t> find_run_times(const std::vector<std::string>& ids) override {
    return parse_run_times(slurm.read_run_times(ids));
  }
  std::map<std::string, std::string> find_owners(const std::vector<std::string>& ids) override {
    std::map<std::string, std::string> owners;
    for (const std::string& id : ids) {
      if (std::string owner = owner_in(slurm.jobs[id].comment); !owner.empty()) owners[id] = owner;
    }
    return owners;
  }
  std::optional<std::vector<SlurmKeeper>> find_keepers() override {
    return keepers_.read_keepers();
  }
  std::string submit_job(const std::vector<std::string>& words) override {
    return slurm.submit_job(words);
  }

 private:
  KeeperFinder keepers_{slurm};
  const Cluster cluster_ = four_nodes();
  const NodeMap nodes_{managed_nodes(parse_nodes(FakeSlurm().read_nodes()), {})};
  World world_{cluster_};
  std::string events_;
  std::vector<std::string> lines_;
  DecisionId decisions_ = 0;

 public:
  JobFollower follower;
};

}  // namespace orrery::live
