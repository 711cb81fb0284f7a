#include "sim/estimates/step/side_by_side.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::estimates {
namespace {

/// Steps of each job before the first counted one; fewest counted steps if all steps of all jobs
/// take equally long.
constexpr std::size_t kBefore = 8, kLeast = 8;
/// Numbers of counted steps if jobs drift against each other: least of the fastest job, least of
/// each job, most of the slowest job.
constexpr std::size_t kLeastDrifting = 256, kLeastSlow = 32, kMost = 512;
constexpr std::size_t kBatches = 8;
constexpr double kEqual = 1e-6;  ///< relative difference of steps
/// Relative difference of the means of two halves, and relative standard error of the mean.
constexpr double kSettled = 1e-3;

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
  const std::vector<IterationRun>& runs() const { return runs_; }
  bool cut_short() const { return !runs_.empty() && runs_.back().cut_short; }

  /// Returns the mean duration of steps `first` up to `last`, `last` excluded.
  double mean(std::size_t first, std::size_t last) const {
    return (sums_[last] - sums_[first]) / static_cast<double>(last - first);
  }
  std::size_t counted() const { return runs_.size() - std::min(runs_.size(), kBefore); }
  /// Returns the least and the largest duration of the counted steps; call only if steps are
  /// counted.
  std::pair<double, double> range() const { return {least_, most_}; }
  /// Returns true if the job's steps have settled or the limit of steps is reached.
  bool settled() const {
    if (cut_short() || counted() >= kMost) return true;
    if (counted() < kLeastSlow) return false;
    return counted() < kLeastDrifting ? standard_error() <= kSettled : halves_agree();
  }

  SteadyStep steady() const {
    if (cut_short()) return {runs_.back(), runs_.back().duration};
    const double mean = this->mean(kBefore, runs_.size());
    const auto closest = std::min_element(
        runs_.begin() + kBefore, runs_.end(), [mean](const auto& a, const auto& b) {
          return std::abs(a.duration - mean) < std::abs(b.duration - mean);
        });
    return {*closest, mean};
  }

 private:
  void step() {
    if (now_) add_run(now_->take_run());
    if (enough_() || cut_short()) return;
    if (now_) return now_->repeat_step();
    now_ = std::make_unique<CurrentStep>(request_, [this] { view_.after(0, [this] { step(); }); });
  }
  bool halves_agree() const {
    const std::size_t count = runs_.size(), middle = kBefore + counted() / 2;
    const double early = mean(kBefore, middle), late = mean(middle, count);
    return std::abs(early - late) <= kSettled * late;
  }
  /// Returns the relative standard error of the mean of the counted steps by the method of batch
  /// means (Law and Carson, Operations Research 27, 1979): steps of one batch may depend on each
  /// other.
  double standard_error() const {
    const std::size_t length = counted() / kBatches;
    const std::size_t first = runs_.size() - kBatches * length;
    const double mean = this->mean(first, runs_.size());
    double squares = 0;
    for (std::size_t i = 0; i < kBatches; ++i) {
      const double off = this->mean(first + i * length, first + (i + 1) * length) - mean;
      squares += off * off;
    }
    return std::sqrt(squares / (kBatches * (kBatches - 1))) / mean;
  }
  void add_run(IterationRun run) {
    sums_.push_back(sums_.back() + run.duration);
    if (runs_.size() >= kBefore) {
      least_ = std::min(least_, run.duration);
      most_ = std::max(most_, run.duration);
    }
    runs_.push_back(std::move(run));
  }

  const JobBeside& job_;
  const Plan plan_;
  EngineView view_;
  const IterationRequest request_;
  const std::function<bool()> enough_;
  std::unique_ptr<CurrentStep> now_;
  std::vector<IterationRun> runs_;
  std::vector<double> sums_{0};  ///< duration of the first 0, 1, 2 ... steps together
  /// Durations of the counted steps.
  double least_ = std::numeric_limits<double>::infinity(), most_ = 0;
};

using Lanes = std::vector<std::unique_ptr<Lane>>;

/// Returns true if all steps of all jobs take equally long, so that the jobs keep their relative
/// phase.
bool in_step(const Lanes& lanes) {
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const auto& lane : lanes) {
    if (lane->cut_short() || lane->counted() < kLeast) return false;
    const auto [shortest, longest] = lane->range();
    least = std::min(least, shortest);
    most = std::max(most, longest);
  }
  return most - least <= kEqual * most;
}

/// Returns true if the mean of each job's steps is known. A slow job meets many steps of a fast one
/// in each of its own, so that few of its steps tell the mean; the fastest job has the full number.
bool settled(const Lanes& lanes) {
  if (in_step(lanes)) return true;
  const bool enough = std::any_of(lanes.begin(), lanes.end(), [](const auto& lane) {
    return lane->cut_short() || lane->counted() >= kLeastDrifting;
  });
  return enough &&
         std::all_of(lanes.begin(), lanes.end(), [](const auto& lane) { return lane->settled(); });
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
    over = settled(lanes);
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
