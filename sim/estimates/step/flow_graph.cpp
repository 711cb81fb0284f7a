#include "sim/estimates/step/flow_graph.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "sim/estimates/engine/sharing_engine.hpp"
#include "sim/estimates/step/collective_order.hpp"
#include "sim/estimates/step/step_programs.hpp"

namespace orrery::estimates {
namespace {

/// Sums of the same times in another order differ by less than the rest.
constexpr double kAsLong = 1 - 1e-12;

// ---- longest fixed times ----------------------------------------------------------------------

/// Removal of points without flows that one fixed time determines, and of waits that others imply.
class PointReducer {
 public:
  /// Adds the points of a graph in their order, and returns those that remain.
  std::vector<FlowGraph::Point> reduce(const std::vector<FlowGraph::Point>& points) {
    for (const FlowGraph::Point& point : points) add(point, &point == &points.back());
    return std::move(kept_);
  }

 private:
  using Waits = std::vector<FlowGraph::Wait>;
  /// Points before a kept one to which the times are known.
  static constexpr std::uint32_t kMostKnown = 256;
  static constexpr double kUnknown = -std::numeric_limits<double>::infinity();
  /// Least times from the newest points before a kept one.
  struct Known {
    std::uint32_t first = 0;    ///< the first of these points
    std::vector<double> times;  ///< kUnknown: not known, or the point need not be before

    double time_from(std::uint32_t point) const {
      return point < first ? kUnknown : times[point - first];
    }
    void add_time(std::uint32_t point, double time) {
      if (point >= first) times[point - first] = std::max(times[point - first], time);
    }
  };

  void add(const FlowGraph::Point& point, bool is_last) {
    FlowGraph::Point made{
        .kind = point.kind, .bytes = point.bytes, .earliest = point.earliest, .after = {}};
    for (const auto& [before, delay] : point.after) {
      const FlowGraph::Point& begin = begins_[before];
      if (begin.after.empty()) {
        made.earliest = std::max(made.earliest, begin.earliest + delay);
      } else {
        add_wait(made.after, {begin.after[0].point, begin.after[0].delay + delay});
      }
    }
    drop_implied(made);
    const bool is_simple = made.after.size() + (made.earliest > 0 ? 1 : 0) <= 1;
    if (point.kind == FlowGraph::kNone && is_simple && !is_last) {
      begins_.push_back(std::move(made));
      return;
    }
    FlowGraph::Point& begin = begins_.emplace_back();
    begin.after = {{static_cast<std::uint32_t>(kept_.size()), 0}};
    keep(std::move(made));
  }
  static void add_wait(Waits& waits, FlowGraph::Wait wait) {
    for (FlowGraph::Wait& each : waits) {
      if (each.point != wait.point) continue;
      each.delay = std::max(each.delay, wait.delay);
      return;
    }
    waits.push_back(wait);
  }
  /// Goes through the waits from the latest point on: a wait can be implied by later points only.
  void drop_implied(FlowGraph::Point& point) const {
    std::sort(point.after.begin(), point.after.end(),
              [](const auto& a, const auto& b) { return a.point > b.point; });
    Waits left;
    for (const FlowGraph::Wait& wait : point.after) {
      const bool is_implied = std::any_of(left.begin(), left.end(), [&](const auto& later) {
        return known_[later.point].time_from(wait.point) + later.delay >= wait.delay * kAsLong;
      });
      if (!is_implied) left.push_back(wait);
    }
    for (const FlowGraph::Wait& wait : left) {
      if (least_[wait.point] + wait.delay >= point.earliest * kAsLong) point.earliest = 0;
    }
    point.after = std::move(left);
  }
  void keep(FlowGraph::Point point) {
    const auto number = static_cast<std::uint32_t>(kept_.size());
    double least = point.earliest;
    Known known;
    known.first = number - std::min(number, kMostKnown);
    known.times.resize(number - known.first, kUnknown);
    for (const FlowGraph::Wait& wait : point.after) {
      least = std::max(least, least_[wait.point] + wait.delay);
      known.add_time(wait.point, wait.delay);
      const Known& before = known_[wait.point];
      for (std::uint32_t i = 0; i < before.times.size(); ++i) {
        known.add_time(before.first + i, before.times[i] + wait.delay);
      }
    }
    least_.push_back(least);
    known_.push_back(std::move(known));
    kept_.push_back(std::move(point));
  }

  /// Begins of the points so far: a wait for one kept point, or a time from the begin of the step.
  std::vector<FlowGraph::Point> begins_;
  std::vector<FlowGraph::Point> kept_;
  std::vector<double> least_;  ///< least time of each kept point
  std::vector<Known> known_;   ///< least times before each kept point
};

// ---- tasks of a step --------------------------------------------------------------------------

/// Tasks of all workers of a step: operations, flows and delays, with their order.
class StepTasks {
 public:
  StepTasks(StepGraph& graph, const Plan& plan, const std::vector<BlockPrice>& prices)
      : graph_(graph), plan_(plan), programs_(graph, plan, prices, false) {}

  FlowGraph build() {
    add_kinds();
    add_ops();
    for (std::uint32_t group = 0; group < plan_.groups.size(); ++group) add_group(group);
    return {.kinds = std::move(kinds_), .points = points_in_order()};
  }

 private:
  /// Flow, or nothing, and a fixed time after its end.
  struct Task {
    std::uint32_t kind = FlowGraph::kNone;
    double bytes = 0, duration = 0;
    std::vector<std::uint32_t> before;  ///< tasks that end before this one begins
  };

  std::uint32_t add_task(double duration, std::vector<std::uint32_t> before) {
    tasks_.push_back({.duration = duration, .before = std::move(before)});
    return static_cast<std::uint32_t>(tasks_.size() - 1);
  }
  std::uint32_t task_of(std::uint32_t worker, std::uint32_t op) const {
    return first_of_[worker] + op;
  }
  std::vector<std::uint32_t> tasks_before(std::uint32_t worker, std::uint32_t op) const {
    std::vector<std::uint32_t> before;
    for (const std::uint32_t each : programs_.op(worker, op).after) {
      before.push_back(task_of(worker, each));
    }
    return before;
  }

  void add_kinds();
  void add_ops();
  void add_op(std::uint32_t worker, std::uint32_t op);
  void add_group(std::uint32_t number);
  std::uint32_t add_flight(std::uint32_t comm, double bytes, std::uint32_t queue,
                           std::uint32_t begin);
  std::vector<FlowGraph::Point> points_in_order() const;
  std::vector<std::uint32_t> order() const;

  StepGraph& graph_;
  const Plan& plan_;
  const StepPrograms programs_;
  std::vector<FlowGraph::Kind> kinds_;
  std::vector<std::uint32_t> kinds_of_;  ///< first kind of each communication of the plan
  std::vector<std::uint32_t> first_of_;  ///< task of the first operation of each worker
  std::vector<Task> tasks_;              ///< the operations' first
};

void StepTasks::add_kinds() {
  std::uint32_t phases = 0;
  for (const CommPlan& comm : plan_.comms) {
    kinds_of_.push_back(static_cast<std::uint32_t>(kinds_.size()));
    for (const CommPhase& phase : comm.phases) {
      for (const WideFlow& part : phase.parts) {
        FlowGraph::Kind& kind = kinds_.emplace_back();
        kind.phase = phases;
        std::vector<std::uint32_t> links = part.links;
        std::sort(links.begin(), links.end());
        for (const std::uint32_t slot : links) {
          if (kind.slots.empty() || kind.slots.back().first != slot)
            kind.slots.emplace_back(slot, 0);
          ++kind.slots.back().second;
        }
      }
      ++phases;
    }
  }
}

/// Blocks of a worker are one after the other, whatever else they wait for.
void StepTasks::add_ops() {
  for (std::uint32_t worker = 0; worker < programs_.workers(); ++worker) {
    first_of_.push_back(static_cast<std::uint32_t>(tasks_.size()));
    tasks_.resize(tasks_.size() + programs_.index(worker).ops().size());
  }
  for (std::uint32_t worker = 0; worker < programs_.workers(); ++worker) {
    const ProgramIndex& index = programs_.index(worker);
    for (std::uint32_t op = 0; op < index.ops().size(); ++op) add_op(worker, op);
    const std::vector<std::uint32_t>& blocks = index.compute_order();
    for (std::size_t i = 1; i < blocks.size(); ++i) {
      tasks_[task_of(worker, blocks[i])].before.push_back(task_of(worker, blocks[i - 1]));
    }
  }
}

void StepTasks::add_op(std::uint32_t worker, std::uint32_t number) {
  const Op& op = programs_.op(worker, number);
  const std::uint32_t task = task_of(worker, number);
  std::vector<std::uint32_t> before = tasks_before(worker, number);
  if (op.kind == OpKind::compute) {
    const BlockPrice& price = programs_.price(op.block);
    tasks_[task].duration = kernel_time(price, 1) + price.tensor.value;
  } else if (op.kind == OpKind::read) {
    tasks_[task].duration = graph_.read_interval().value;
  } else if (op.kind == OpKind::send) {
    const std::uint32_t way = plan_.transfer(programs_.class_of(worker), programs_.stage_of(worker),
                                             static_cast<std::uint32_t>(op.peer_stage));
    const std::uint32_t begin = add_task(0, std::move(before));
    before = {add_flight(way, op.bytes.value, FlowGraph::kNone, begin)};
    const auto [receiver, wanted] = programs_.receive_of(worker, number);
    tasks_[task_of(receiver, wanted)].before.push_back(task);
  } else if (op.kind == OpKind::collective) {
    before.clear();  // add_group()
  }
  tasks_[task].before.insert(tasks_[task].before.end(), before.begin(), before.end());
}

void StepTasks::add_group(std::uint32_t number) {
  const GroupPlan& group = plan_.groups[number];
  const CollectiveOrder order = collective_order(group, programs_);
  std::vector<std::uint32_t> begins, ends;
  for (const Op* op : order.ops) {
    const GroupPlan::Way& way = plan_.collective(number, op->collective, op->bytes);
    begins.push_back(add_task(way.coding.value, {}));
    if (!ends.empty()) tasks_[begins.back()].before.push_back(ends.back());
    ends.push_back(add_flight(way.plan, way.carried, number, begins.back()));
  }
  for (std::size_t i = 0; i < group.classes.size(); ++i) {
    const std::uint32_t worker = group.classes[i] * plan_.stages + group.stage;
    const ProgramIndex& index = programs_.index(worker);
    for (const std::uint32_t op : index.collectives(group.communicator)) {
      const std::uint32_t place = order.place_of(i, index.ordinal(op));
      for (const std::uint32_t before : tasks_before(worker, op)) {
        tasks_[begins[place]].before.push_back(before);
      }
      tasks_[task_of(worker, op)].before.push_back(ends[place]);
    }
  }
}

/// Adds the flows of a communication after a task, and returns the task at whose end the
/// communication ends.
std::uint32_t StepTasks::add_flight(std::uint32_t comm, double bytes, std::uint32_t queue,
                                    std::uint32_t begin) {
  std::uint32_t kind = kinds_of_[comm];
  for (const CommPhase& phase : plan_.comms[comm].phases) {
    std::vector<std::uint32_t> parts;
    for (const WideFlow& part : phase.parts) {
      parts.push_back(add_task(0, {begin}));
      const double units = bytes * part.share * SharingEngine::kUnitsOfByte;
      if (!part.links.empty() && units >= 1) {
        tasks_.back().kind = kind;
        tasks_.back().bytes = std::floor(units + 0.5) / SharingEngine::kUnitsOfByte;
      }
      kinds_[kind++].queue = queue;
    }
    begin = parts.size() == 1 ? parts.front() : add_task(0, std::move(parts));
    tasks_[begin].duration = phase.latency.value;
  }
  return begin;
}

/// Returns the tasks in an order in which each task follows those before it.
std::vector<std::uint32_t> StepTasks::order() const {
  std::vector<std::vector<std::uint32_t>> followers(tasks_.size());
  std::vector<std::size_t> missing(tasks_.size());
  std::vector<std::uint32_t> ordered;
  for (std::uint32_t task = 0; task < tasks_.size(); ++task) {
    missing[task] = tasks_[task].before.size();
    if (missing[task] == 0) ordered.push_back(task);
    for (const std::uint32_t before : tasks_[task].before) followers[before].push_back(task);
  }
  for (std::size_t next = 0; next < ordered.size(); ++next) {
    for (const std::uint32_t follower : followers[ordered[next]]) {
      if (--missing[follower] == 0) ordered.push_back(follower);
    }
  }
  ensure(ordered.size() == tasks_.size(), "every operation of a training step runs");
  return ordered;
}

/// The end of the step waits for all tasks that no other one waits for.
std::vector<FlowGraph::Point> StepTasks::points_in_order() const {
  std::vector<std::uint32_t> point_of(tasks_.size());
  std::vector<bool> is_awaited(tasks_.size());
  std::vector<FlowGraph::Point> points;
  for (const std::uint32_t number : order()) {
    const Task& task = tasks_[number];
    point_of[number] = static_cast<std::uint32_t>(points.size());
    FlowGraph::Point& point = points.emplace_back();
    point.kind = task.kind;
    point.bytes = task.bytes;
    for (const std::uint32_t before : task.before) {
      is_awaited[before] = true;
      point.after.push_back({point_of[before], tasks_[before].duration});
    }
  }
  FlowGraph::Point end;
  for (std::uint32_t task = 0; task < tasks_.size(); ++task) {
    if (!is_awaited[task]) end.after.push_back({point_of[task], tasks_[task].duration});
  }
  points.push_back(std::move(end));
  return points;
}

}  // namespace

FlowGraph flow_graph(StepGraph& graph, const Plan& plan, const std::vector<BlockPrice>& prices) {
  FlowGraph made = StepTasks(graph, plan, prices).build();
  made.points = PointReducer().reduce(made.points);
  return made;
}

FlowGraph with_fixed_flows(const FlowGraph& graph, const std::vector<double>& rates) {
  FlowGraph made = graph;
  if (std::all_of(rates.begin(), rates.end(), [](double rate) { return rate == 0; })) return made;
  for (FlowGraph::Point& point : made.points) {
    for (FlowGraph::Wait& wait : point.after) {
      const FlowGraph::Point& before = graph.points[wait.point];
      if (before.kind == FlowGraph::kNone || rates[before.kind] == 0) continue;
      wait.delay += before.bytes / rates[before.kind];
    }
  }
  for (FlowGraph::Point& point : made.points) {
    if (point.kind != FlowGraph::kNone && rates[point.kind] > 0) point.kind = FlowGraph::kNone;
  }
  made.points = PointReducer().reduce(made.points);
  return made;
}

std::string text_of(const FlowGraph& graph) {
  std::string text;
  append_bytes(text, graph.kinds.size());
  for (const FlowGraph::Kind& kind : graph.kinds) {
    append_bytes(text, kind.queue);
    append_bytes(text, kind.phase);
  }
  append_bytes(text, graph.points.size());
  for (const FlowGraph::Point& point : graph.points) {
    append_bytes(text, point.kind);
    append_bytes(text, point.bytes);
    append_bytes(text, point.earliest);
    append_bytes(text, point.after.size());
    for (const FlowGraph::Wait& wait : point.after) {
      append_bytes(text, wait.point);
      append_bytes(text, wait.delay);
    }
  }
  return text;
}

}  // namespace orrery::estimates
