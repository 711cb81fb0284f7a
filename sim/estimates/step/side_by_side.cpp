#include "sim/estimates/step/side_by_side.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "sim/estimates/step/settled_steps.hpp"

namespace orrery::estimates {
namespace {

/// Part of an engine that one job uses, with the job's own host and link numbers.
class EngineView : public Engine {
 public:
  EngineView(Engine& engine, std::uint32_t first_host, std::vector<std::uint32_t> links)
      : engine_(engine), first_host_(first_host), links_(std::move(links)) {}

  double now() const override { return engine_.now(); }
  std::uint32_t hosts() const override { return engine_.hosts() - first_host_; }
  std::uint32_t links() const override { return static_cast<std::uint32_t>(links_.size()); }
  void start_timer(double delay, std::function<void()> what, const MemoryHint& hint) override {
    engine_.start_timer(delay, std::move(what), hint);
  }
  Handle start_computation(std::uint32_t host, double work, Done done) override {
    return engine_.start_computation(first_host_ + host, work, std::move(done));
  }
  Handle flow(std::span<const std::uint32_t> links, double bytes, Done done) override {
    over_.clear();
    for (const std::uint32_t link : links) over_.push_back(links_[link]);
    return engine_.flow(over_, bytes, std::move(done));
  }
  void set_speed(std::uint32_t host, double speed) override {
    engine_.set_speed(first_host_ + host, speed);
  }
  void set_bandwidth(std::uint32_t link, double bandwidth) override {
    if (links_[link] != JointLinks::kNone) engine_.set_bandwidth(links_[link], bandwidth);
  }
  void set_link_up(std::uint32_t link, bool up) override {
    if (links_[link] != JointLinks::kNone) engine_.set_link_up(links_[link], up);
  }
  void run() override { throw Error(ErrorKind::internal, "a part of an engine cannot run()"); }
  void cancel_all() override {}
  std::uint64_t events() const override { return engine_.events(); }

 private:
  Engine& engine_;
  const std::uint32_t first_host_;
  /// Engine link by the job's slot; JointLinks::kNone if an equal link represents it.
  const std::vector<std::uint32_t> links_;
  std::vector<std::uint32_t> over_;  ///< links of the flow that is being started
};

/// Returns the plan with flows that cross only the links with an engine link.
Plan over_engine_links(Plan plan, const std::vector<std::uint32_t>& links) {
  for (CommPlan& comm : plan.comms) {
    for (CommPhase& phase : comm.phases) {
      for (WideFlow& part : phase.parts) {
        std::erase_if(part.links, [&links](auto slot) { return links[slot] == JointLinks::kNone; });
      }
    }
  }
  return plan;
}

/// Sequence of one job's steps.
class Lane {
 public:
  Lane(Engine& engine, const JobBeside& job, std::uint32_t first_host,
       std::vector<std::uint32_t> links, std::function<bool()> enough)
      : job_(job),
        plan_(over_engine_links(job.plan, links)),
        view_(engine, first_host, std::move(links)),
        request_{.engine = view_,
                 .graph = job.graph,
                 .plan = plan_,
                 .prices = job.prices,
                 .state = job.state,
                 .merges_blocks = job.duration_only},
        enough_(std::move(enough)) {}

  void begin() {
    view_.after(job_.begins, [this] { step(); });
  }
  bool cut_short() const { return !runs_.empty() && runs_.back().cut_short; }
  const StepDurations& durations() const { return durations_; }

  SteadyStep steady() const {
    std::vector<double> all = durations_.first(durations_.count());
    if (cut_short()) return {runs_.back(), runs_.back().duration, std::move(all)};
    return {runs_[durations_.closest_to_mean()], durations_.mean(), std::move(all)};
  }

 private:
  void step() {
    if (now_) add_run(now_->take_run());
    if (enough_() || cut_short()) return;
    if (now_) return now_->repeat_step();
    now_ = std::make_unique<CurrentStep>(request_, [this] { view_.after(0, [this] { step(); }); });
  }
  void add_run(IterationRun run) {
    durations_.add_step(run.duration);
    runs_.push_back(std::move(run));
  }

  const JobBeside& job_;
  const Plan plan_;
  EngineView view_;
  const IterationRequest request_;
  const std::function<bool()> enough_;
  std::unique_ptr<CurrentStep> now_;
  std::vector<IterationRun> runs_;
  StepDurations durations_;
};

using Lanes = std::vector<std::unique_ptr<Lane>>;

/// Returns true if the mean of each job's steps is known, or a step of the job was cut short.
bool have_settled(const Lanes& lanes) {
  const auto is_cut_short = [](const auto& lane) { return lane->cut_short(); };
  if (std::any_of(lanes.begin(), lanes.end(), is_cut_short)) {
    return std::all_of(lanes.begin(), lanes.end(), [](const auto& lane) {
      return lane->cut_short() || lane->durations().is_settled();
    });
  }
  std::vector<const StepDurations*> durations;
  for (const auto& lane : lanes) durations.push_back(&lane->durations());
  return are_settled(durations);
}

/// Throws bad_input if the engine lacks room. The engine has room for the jobs at their start;
/// grown jobs may need more.
void check_room(const Engine& engine, const std::vector<JobBeside>& jobs, std::uint32_t links) {
  std::uint32_t hosts = 0;
  for (const JobBeside& job : jobs) hosts += job.plan.workers() * job.plan.member_hosts;
  if (hosts <= engine.hosts() && links <= engine.links()) return;
  throw Error(ErrorKind::bad_input,
              fmt::format("jobs that share links: expected at most {2} workers and {3} links, as "
                          "at the jobs' start, found {0} and {1}: limit their growth",
                          hosts, links, engine.hosts(), engine.links()));
}

}  // namespace

std::vector<SteadyStep> steady_steps(Engine& engine, const std::vector<JobBeside>& jobs) {
  return steady_steps(engine, jobs, joint_links(jobs));
}

std::vector<SteadyStep> steady_steps(Engine& engine, const std::vector<JobBeside>& jobs,
                                     JointLinks links) {
  std::uint32_t hosts = 0;
  check_room(engine, jobs, links.count);
  Lanes lanes;
  bool over = false;
  const auto enough = [&] {
    if (over) return true;
    over = have_settled(lanes);
    if (over) engine.after(0, [&engine] { engine.cancel_all(); });
    return over;
  };
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    lanes.push_back(
        std::make_unique<Lane>(engine, jobs[job], hosts, std::move(links.numbers[job]), enough));
    hosts += jobs[job].plan.workers() * jobs[job].plan.member_hosts;
  }
  for (const auto& lane : lanes) lane->begin();
  engine.run();
  std::vector<SteadyStep> out;
  for (const auto& lane : lanes) out.push_back(lane->steady());
  return out;
}

}  // namespace orrery::estimates
