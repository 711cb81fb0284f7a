#include "sim/estimates/step/joint_run.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "sim/estimates/engine/calendar.hpp"
#include "sim/estimates/step/settled_steps.hpp"
#include "sim/estimates/step/shared_rates.hpp"

namespace orrery::estimates {
namespace {

constexpr double kAtOnce = 1e-9;
constexpr std::uint32_t kNone = FlowGraph::kNone;

/// Points of one lane's step, with the points that follow each of them, and the progress of the
/// present step.
struct LaneRun {
  struct Follower {
    std::uint32_t point;
    double delay;
  };
  struct Point {
    double earliest = 0, bytes = 0;
    std::uint32_t kind = kNone;  ///< kind in SharedRates
    std::uint32_t first = 0;     ///< index of the first follower
  };
  /// Progress of a point.
  struct Progress {
    double at = 0;              ///< not before this time
    std::uint32_t missing = 0;  ///< points that have not been reached
  };

  explicit LaneRun(const FlowGraph& graph, const std::vector<std::uint32_t>& kinds) {
    std::vector<std::vector<Follower>> after(graph.points.size());
    for (std::uint32_t point = 0; point < graph.points.size(); ++point) {
      const FlowGraph::Point& from = graph.points[point];
      for (const FlowGraph::Wait& wait : from.after) {
        after[wait.point].push_back({point, wait.delay});
      }
      initial.push_back({0, static_cast<std::uint32_t>(from.after.size())});
      if (from.after.empty()) starts.push_back(point);
      points.push_back(
          {from.earliest, from.bytes, from.kind == kNone ? kNone : kinds[from.kind], 0});
    }
    for (std::uint32_t point = 0; point < after.size(); ++point) {
      points[point].first = static_cast<std::uint32_t>(followers.size());
      followers.insert(followers.end(), after[point].begin(), after[point].end());
    }
    points.push_back({.first = static_cast<std::uint32_t>(followers.size())});
    end = static_cast<std::uint32_t>(after.size() - 1);
  }

  std::vector<Point> points;  ///< one more than there are, for its `first`
  std::vector<Follower> followers;
  std::vector<Progress> initial, progress;
  std::vector<std::uint32_t> starts;  ///< points that wait for no other one
  std::uint32_t end = 0;              ///< the last point
  double began = 0;
  StepDurations durations;
};

/// Simulation of the lanes of a group.
class JointRun {
 public:
  using Lanes = std::vector<LaneRun>;
  JointRun(const FlowGroup& group, std::function<bool(const Lanes&)> is_over);
  /// Runs until `is_over` returns true at the end of a step.
  const Lanes& run();

 private:
  /// Point of a lane.
  struct At {
    std::uint32_t lane, point;
  };
  /// Flow in progress.
  struct Flow {
    At at;
    std::uint32_t kind;
    double left, since;  ///< bytes left at the time `since`
    double rate, end;
  };

  void begin_step(std::uint32_t lane);
  void reach_due();
  void pass_point(At at);
  void end_flows();
  void renew_rates();
  bool has_passed_alone(At at, const LaneRun::Point& point);

  const std::function<bool(const Lanes&)> is_over_;
  Lanes lanes_;
  std::unique_ptr<SharedRates> shared_;
  std::vector<double> largest_;  ///< rate of a flow alone, by kind
  Calendar<At> calendar_;
  std::vector<Flow> flows_;  ///< flows in progress
  std::vector<At> due_;      ///< points that are reached now
  std::vector<At> ended_;    ///< points whose flows end now
  double now_ = 0;
  double next_end_ = std::numeric_limits<double>::infinity();
  bool has_changed_ = false;  ///< flows have begun or ended at this time
  bool has_to_end_ = false;   ///< further flows end at this time
  bool over_ = false;
};

JointRun::JointRun(const FlowGroup& group, std::function<bool(const Lanes&)> is_over)
    : is_over_(std::move(is_over)) {
  std::vector<std::vector<std::uint32_t>> kinds;
  for (const FlowGroup::Lane& lane : group.lanes) kinds.emplace_back(lane.rates.size(), kNone);
  std::vector<SharedRates::Link> links;
  for (const FlowGroup::Link& link : group.links) {
    SharedRates::Link& made = links.emplace_back();
    made.bandwidth = link.bandwidth;
    for (const auto& [lane, kind, times] : link.crossings) {
      std::uint32_t& number = kinds[lane][kind];
      if (number == kNone) {
        number = static_cast<std::uint32_t>(largest_.size());
        largest_.push_back(group.lanes[lane].rates[kind]);
      }
      made.crossings.push_back({number, static_cast<double>(times)});
    }
  }
  for (std::size_t lane = 0; lane < group.lanes.size(); ++lane) {
    std::vector<double> fixed = group.lanes[lane].rates;
    for (std::size_t kind = 0; kind < fixed.size(); ++kind) {
      if (kinds[lane][kind] != kNone) fixed[kind] = 0;
    }
    lanes_.emplace_back(with_fixed_flows(*group.lanes[lane].graph, fixed), kinds[lane]);
  }
  shared_ = std::make_unique<SharedRates>(largest_, std::move(links));
}

const JointRun::Lanes& JointRun::run() {
  for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane) begin_step(lane);
  while (!over_) {
    if (has_changed_) renew_rates();
    now_ = std::min(calendar_.next(), next_end_);
    ensure(now_ < std::numeric_limits<double>::infinity(), "a step of each job ends");
    if (next_end_ - now_ < kAtOnce) end_flows();
    while (!over_ && calendar_.next() <= now_) {
      due_.push_back(calendar_.pop_entry());
      reach_due();
    }
  }
  return lanes_;
}

void JointRun::begin_step(std::uint32_t number) {
  LaneRun& lane = lanes_[number];
  lane.began = now_;
  lane.progress = lane.initial;
  for (const std::uint32_t point : lane.starts) {
    calendar_.add_entry(now_ + lane.points[point].earliest, {number, point});
  }
}

/// A point with a flow is passed when the flow ends.
void JointRun::reach_due() {
  while (!due_.empty() && !over_) {
    const At at = due_.back();
    due_.pop_back();
    const LaneRun::Point& point = lanes_[at.lane].points[at.point];
    if (point.kind == kNone) {
      pass_point(at);
      continue;
    }
    if (has_passed_alone(at, point)) continue;
    flows_.push_back({at, point.kind, point.bytes, now_, 0, 0});
    shared_->add_flow(point.kind);
    has_changed_ = true;
  }
}

/// Advances the clock to the end of a flow that begins now, if nothing else happens until then, and
/// passes its point. Returns false otherwise.
bool JointRun::has_passed_alone(At at, const LaneRun::Point& point) {
  if (!flows_.empty() || !due_.empty() || has_to_end_) return false;
  const double end = now_ + point.bytes / largest_[point.kind];
  if (end >= calendar_.next()) return false;
  now_ = end;
  pass_point(at);
  return true;
}

void JointRun::pass_point(At at) {
  LaneRun& lane = lanes_[at.lane];
  if (at.point == lane.end) {
    lane.durations.add_step(now_ - lane.began);
    over_ = is_over_(lanes_);
    if (!over_) begin_step(at.lane);
    return;
  }
  const std::uint32_t last = lane.points[at.point + 1].first;
  for (std::uint32_t i = lane.points[at.point].first; i < last; ++i) {
    const LaneRun::Follower& follower = lane.followers[i];
    LaneRun::Progress& progress = lane.progress[follower.point];
    progress.at = std::max(progress.at, now_ + follower.delay);
    if (--progress.missing > 0) continue;
    const double time = std::max(progress.at, lane.began + lane.points[follower.point].earliest);
    if (time <= now_) {
      due_.push_back({at.lane, follower.point});
    } else {
      calendar_.add_entry(time, {at.lane, follower.point});
    }
  }
}

void JointRun::end_flows() {
  ended_.clear();
  for (std::size_t i = 0; i < flows_.size();) {
    if (flows_[i].end - now_ >= kAtOnce) {
      ++i;
      continue;
    }
    shared_->remove_flow(flows_[i].kind);
    ended_.push_back(flows_[i].at);
    flows_[i] = flows_.back();
    flows_.pop_back();
  }
  has_changed_ = true;
  for (std::size_t i = 0; i < ended_.size() && !over_; ++i) {
    has_to_end_ = i + 1 < ended_.size();
    pass_point(ended_[i]);
    reach_due();
  }
}

void JointRun::renew_rates() {
  const double* rates = shared_->rates();
  next_end_ = std::numeric_limits<double>::infinity();
  for (Flow& flow : flows_) {
    const double rate = rates[flow.kind];
    if (rate != flow.rate) {
      flow.left = std::max(0.0, flow.left - (now_ - flow.since) * flow.rate);
      flow.since = now_;
      flow.rate = rate;
      flow.end = now_ + flow.left / rate;
    }
    next_end_ = std::min(next_end_, flow.end);
  }
  has_changed_ = false;
}

}  // namespace

std::vector<double> mean_steps(const FlowGroup& group) {
  std::vector<const StepDurations*> durations;
  JointRun run(group, [&durations](const JointRun::Lanes& lanes) {
    if (durations.empty()) {
      for (const LaneRun& lane : lanes) durations.push_back(&lane.durations);
    }
    return are_settled(durations);
  });
  std::vector<double> means;
  for (const LaneRun& lane : run.run()) means.push_back(lane.durations.mean());
  return means;
}

std::vector<std::vector<double>> first_steps(const FlowGroup& group, std::size_t count) {
  JointRun run(group, [count](const JointRun::Lanes& lanes) {
    return std::all_of(lanes.begin(), lanes.end(),
                       [count](const LaneRun& lane) { return lane.durations.count() >= count; });
  });
  std::vector<std::vector<double>> steps;
  for (const LaneRun& lane : run.run()) steps.push_back(lane.durations.first(count));
  return steps;
}

}  // namespace orrery::estimates
