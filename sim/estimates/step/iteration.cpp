#include "sim/estimates/step/iteration.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <span>

#include <fmt/format.h>

#include "core/error.hpp"
#include "sim/estimates/step/flights.hpp"
#include "sim/estimates/step/program_index.hpp"

namespace orrery {
namespace {

constexpr std::uint32_t kNone = ProgramIndex::kNone;

const char* phase_name(Phase phase) {
  switch (phase) {
    case Phase::forward: return "forward";
    case Phase::backward: return "backward";
    case Phase::gradient: return "gradient";
    case Phase::optimizer: return "optimizer";
    case Phase::parameters: return "parameters";
  }
  return "";
}

bool is_pass(Phase phase) { return phase == Phase::forward || phase == Phase::backward; }

std::string slice_name(const Op& op) {
  const char* phase = phase_name(op.phase);
  if (op.kind == OpKind::read) return fmt::format("read {}", op.micro_batch);
  if (op.kind == OpKind::collective) {
    if (!is_pass(op.phase)) return fmt::format("{} bucket {}", phase, op.bucket);
    return fmt::format("gather {} of {} {}", op.bucket, phase, op.micro_batch);
  }
  if (!is_pass(op.phase)) return phase;
  std::string name = fmt::format("{} {}", phase, op.micro_batch);
  if (op.kind == OpKind::send) name += fmt::format(" to stage {}", op.peer_stage);
  return name;
}

struct Worker {
  std::uint32_t of_class = 0;
  std::uint32_t stage = 0;
  const ProgramIndex* index = nullptr;
  std::vector<std::uint32_t> missing;  ///< by op: dependencies not yet ended
  std::vector<bool> here;              ///< by op: a receive whose transfer has come, or that waits
  std::size_t next_compute = 0;
  bool busy = false;
  double block_began = 0, block_ended = 0;
  bool held_up = false;                      ///< the next block came last to a collective or input
  std::uint32_t running_members = 0;         ///< still in the block
  std::vector<std::uint32_t> backward_left;  ///< by micro-batch: backward blocks to come
};

/// One collective of a group: begins when all expected classes have come to it.
struct Collective {
  const Op* op = nullptr;
  std::uint32_t expected = 0;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> arrived;  ///< (worker, op)
};
struct Group {
  std::vector<Collective> queue;  ///< in program order
  /// By class (as in the plan's group): place in the queue of each of its program's collectives;
  /// empty: the same place.
  std::vector<std::vector<std::uint32_t>> places;
  std::size_t next = 0;  ///< one at a time, as on one stream
  bool running = false;
};

class Execution {
 public:
  explicit Execution(const IterationRequest& request, std::function<void()> ended = {})
      : in_(request),
        ended_(std::move(ended)),
        flights_(in_.engine, [this](const CommPhase& phase) { fail(phase); }) {}
  IterationRun run();
  void begin();
  IterationRun take();

 private:
  void lay_out();
  void add_worker(std::uint32_t of_class, std::uint32_t stage);
  const ProgramIndex& index_of(std::uint32_t of_class, std::uint32_t stage);
  Group group_of(const GroupPlan& plan);
  void check_room() const;
  void set_hardware();
  double clock() const { return in_.engine.now() - began_; }
  const Op& op_of(std::uint32_t worker, std::uint32_t op) const {
    return workers_[worker].index->ops()[op];
  }

  std::uint32_t host(std::uint32_t worker, std::uint32_t member) const {
    return worker * in_.plan.member_hosts + member;
  }
  double slow_of(std::uint32_t worker, std::uint32_t member) const;

  void ready(std::uint32_t worker, std::uint32_t op);
  void ended(std::uint32_t worker, std::uint32_t op);
  void next_block(std::uint32_t worker);
  void start_block(std::uint32_t worker, std::uint32_t op);
  void member_ended(std::uint32_t worker, std::uint32_t op);
  void block_ended(std::uint32_t worker, std::uint32_t op);
  void read(std::uint32_t worker, std::uint32_t op);
  void send(std::uint32_t worker, std::uint32_t op);
  void receive(std::uint32_t worker, std::uint32_t op);
  void delivered(std::uint32_t worker, std::uint32_t op);
  void arrive(std::uint32_t worker, std::uint32_t op);
  void next_collective(std::uint32_t group);
  void collective_ended(std::uint32_t group, double from);
  void change(const TimedChange& change);
  void note(std::uint32_t worker, Slice::Track track, const Op& op, double from);
  void take_down(LinkId link);
  void fail(const CommPhase& phase);
  void finish();

  const IterationRequest& in_;
  const std::function<void()> ended_;  ///< beside others: nobody else's activities are cancelled
  IterationRun out_;
  HardwareState state_;
  std::map<const Program*, std::unique_ptr<ProgramIndex>> indices_;  // looked up, never walked
  std::vector<Worker> workers_;
  std::vector<Group> groups_;  ///< as in the plan
  Flights flights_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> shared_;  // groups still to end
  std::size_t ops_left_ = 0;
  double began_ = 0;
  bool over_ = false;
};

// ---- set-up -------------------------------------------------------------------------------

const ProgramIndex& Execution::index_of(std::uint32_t of_class, std::uint32_t stage) {
  const Program& program =
      in_.graph.program(stage, in_.plan.classes[of_class].micro_batches);
  std::unique_ptr<ProgramIndex>& index = indices_[&program];
  if (!index) index = std::make_unique<ProgramIndex>(program, in_.graph.chunks());
  return *index;
}

void Execution::add_worker(std::uint32_t of_class, std::uint32_t stage) {
  Worker& worker = workers_.emplace_back();
  worker.of_class = of_class;
  worker.stage = stage;
  worker.index = &index_of(of_class, stage);
  worker.missing = worker.index->missing();
  worker.here.resize(worker.missing.size());
  worker.backward_left = worker.index->backward_blocks();
  ops_left_ += worker.missing.size();
}

/// The longest program of the group sets the order; a class with fewer micro-batches has no part
/// in what the others do for theirs.
Group Execution::group_of(const GroupPlan& plan) {
  const auto list_of = [&](std::uint32_t of_class) -> const std::vector<std::uint32_t>& {
    return index_of(of_class, plan.stage).collectives(plan.communicator);
  };
  const std::uint32_t longest = *std::max_element(
      plan.classes.begin(), plan.classes.end(), [&](std::uint32_t a, std::uint32_t b) {
        return list_of(a).size() < list_of(b).size();
      });
  const std::vector<Op>& ops = index_of(longest, plan.stage).ops();
  Group group;
  std::map<ProgramIndex::CollectiveKey, std::uint32_t> place_of;
  for (const std::uint32_t op : list_of(longest)) {
    place_of[ProgramIndex::key_of(ops[op])] = static_cast<std::uint32_t>(group.queue.size());
    group.queue.push_back({.op = &ops[op], .expected = 0, .arrived = {}});
  }
  for (const std::uint32_t of_class : plan.classes) {
    std::vector<std::uint32_t>& places = group.places.emplace_back();
    if (&list_of(of_class) == &list_of(longest)) {
      for (Collective& collective : group.queue) ++collective.expected;
      continue;
    }
    const std::vector<Op>& own = index_of(of_class, plan.stage).ops();
    for (const std::uint32_t op : list_of(of_class)) {
      places.push_back(place_of.at(ProgramIndex::key_of(own[op])));
      ++group.queue[places.back()].expected;
    }
  }
  return group;
}

void Execution::lay_out() {
  workers_.reserve(in_.plan.workers());
  for (std::uint32_t c = 0; c < in_.plan.classes.size(); ++c) {
    for (std::uint32_t stage = 0; stage < in_.plan.stages; ++stage) add_worker(c, stage);
  }
  for (const GroupPlan& group : in_.plan.groups) groups_.push_back(group_of(group));
  out_.workers.resize(workers_.size());
  check_room();
}

void Execution::check_room() const {
  ensure(workers_.size() * in_.plan.member_hosts <= in_.engine.hosts(),
         "the engine has a host for every simulated worker");
  if (in_.plan.slots.size() <= in_.engine.links()) return;
  throw Error(ErrorKind::bad_input,
              fmt::format("faults: too many different ones at once: a step needs {} links that "
                          "differ, at most {} are simulated",
                          in_.plan.slots.size(), in_.engine.links()));
}

double Execution::slow_of(std::uint32_t worker, std::uint32_t member) const {
  const Worker& at = workers_[worker];
  const std::uint32_t replica = in_.plan.classes[at.of_class].members.front();
  const RankId rank = in_.graph.rank(replica, at.stage, member);
  const bool apart =
      in_.plan.member_hosts > 1 && in_.graph.communicator_size(Communicator::expert) == 1;
  return apart ? state_.slow_of(rank) : slowest_beside(in_.graph, state_, rank);
}

void Execution::set_hardware() {
  for (std::uint32_t worker = 0; worker < workers_.size(); ++worker) {
    for (std::uint32_t member = 0; member < in_.plan.member_hosts; ++member) {
      in_.engine.set_speed(host(worker, member), 1 / slow_of(worker, member));
    }
  }
}

void Execution::begin() {
  state_ = in_.state;
  lay_out();
  began_ = in_.engine.now();
  for (std::uint32_t slot = 0; slot < in_.plan.slots.size(); ++slot) {
    in_.engine.set_link_up(slot, true);
    in_.engine.set_bandwidth(slot, in_.plan.slots[slot].bandwidth);
  }
  for (const std::uint32_t link : in_.state.down) take_down({link});
  set_hardware();
  for (const TimedChange& next : in_.changes) {
    in_.engine.after(next.at, [this, &next] { change(next); });
  }
  for (const Background& other : in_.background) {
    const std::uint32_t slot = in_.plan.pinned.at(other.link.value);
    in_.engine.after(other.at, [this, slot, bytes = other.bytes] {
      if (!over_) in_.engine.flow(std::span(&slot, 1), bytes, [](bool) {});
    });
  }
  for (std::uint32_t worker = 0; worker < workers_.size(); ++worker) {
    out_.workers[worker].progress.emplace_back(0.0, 0.0);
    const std::vector<std::uint32_t>& missing = workers_[worker].index->missing();
    for (std::uint32_t op = 0; op < missing.size() && !over_; ++op) {
      if (missing[op] == 0) ready(worker, op);
    }
  }
  if (ops_left_ == 0 && !over_) finish();
}

// ---- compute --------------------------------------------------------------------------------

void Execution::ready(std::uint32_t worker, std::uint32_t op) {
  switch (op_of(worker, op).kind) {
    case OpKind::compute: next_block(worker); break;
    case OpKind::send: send(worker, op); break;
    case OpKind::receive: receive(worker, op); break;
    case OpKind::collective: arrive(worker, op); break;
    case OpKind::read: read(worker, op); break;
  }
}

void Execution::ended(std::uint32_t worker, std::uint32_t op) {
  ++out_.events;
  if (--ops_left_ == 0) return finish();
  Worker& at = workers_[worker];
  const OpKind kind = at.index->ops()[op].kind;
  for (const std::uint32_t dependent : at.index->dependents(op)) {
    if (--at.missing[dependent] > 0) continue;
    if (at.index->ops()[dependent].kind == OpKind::compute) {
      at.held_up = kind == OpKind::collective || kind == OpKind::read;
    }
    ready(worker, dependent);
    if (over_) return;
  }
}

void Execution::next_block(std::uint32_t worker) {
  Worker& at = workers_[worker];
  const std::vector<std::uint32_t>& order = at.index->compute_order();
  if (at.busy || at.next_compute == order.size()) return;
  const std::uint32_t op = order[at.next_compute];
  if (at.missing[op] > 0) return;
  ++at.next_compute;
  start_block(worker, op);
}

void Execution::start_block(std::uint32_t worker, std::uint32_t op) {
  Worker& at = workers_[worker];
  const Op& what = at.index->ops()[op];
  at.busy = true;
  at.block_began = clock();
  if (at.held_up && is_pass(what.phase)) {
    out_.workers[worker].exposed += at.block_began - at.block_ended;
  }
  at.running_members = in_.plan.member_hosts;
  const BlockPrice& price = in_.prices[what.block];
  for (std::uint32_t member = 0; member < in_.plan.member_hosts; ++member) {
    in_.engine.compute(host(worker, member), price.compute.value,
                       [this, worker, op](bool) { member_ended(worker, op); });
  }
}

void Execution::member_ended(std::uint32_t worker, std::uint32_t op) {
  Worker& at = workers_[worker];
  if (--at.running_members > 0) return;
  at.block_ended = clock();  // of its kernels
  const double tensor = in_.prices[at.index->ops()[op].block].tensor.value;
  if (tensor == 0) return block_ended(worker, op);
  in_.engine.after(tensor, [this, worker, op] { block_ended(worker, op); });
}

void Execution::block_ended(std::uint32_t worker, std::uint32_t op) {
  Worker& at = workers_[worker];
  const Op& what = at.index->ops()[op];
  WorkerRun& run = out_.workers[worker];
  const double now = clock();
  // What follows an update's kernels is the host's, not a collective.
  const double kernels = is_pass(what.phase) ? at.block_ended : now;
  run.compute += kernels - at.block_began;
  run.tensor += now - kernels;
  run.moved += in_.prices[what.block].moved.value;
  if (is_pass(what.phase)) {
    run.progress.emplace_back(at.block_began, run.passes);
    run.passes += now - at.block_began;
    run.progress.emplace_back(now, run.passes);
    run.passes_end = now;
    if (what.phase == Phase::backward && --at.backward_left[what.micro_batch] == 0) {
      ++run.micro_batches;
    }
  } else {
    run.tail += now - at.block_began;
  }
  note(worker, Slice::Track::compute, what, at.block_began);
  at.busy = false;
  at.block_ended = now;
  at.held_up = false;
  ended(worker, op);
  if (!over_) next_block(worker);
}

/// The reader works beside everything else.
void Execution::read(std::uint32_t worker, std::uint32_t op) {
  in_.engine.after(to_seconds(in_.graph.job().input().read()),
                   [this, worker, op] { ended(worker, op); });
}

// ---- communication ----------------------------------------------------------------------------

void Execution::send(std::uint32_t worker, std::uint32_t op) {
  const Worker& at = workers_[worker];
  const Op& what = at.index->ops()[op];
  const auto to = static_cast<std::uint32_t>(what.peer_stage);
  flights_.start(in_.plan.transfer(at.of_class, at.stage, to), what.bytes.value, {},
                 [this, worker, op, from = clock()] {
                   note(worker, Slice::Track::communication, op_of(worker, op), from);
                   delivered(worker, op);
                 });
}

/// A send has ended, and with it the receive if that waits.
void Execution::delivered(std::uint32_t worker, std::uint32_t op) {
  const Op& what = op_of(worker, op);
  const std::uint32_t receiver = workers_[worker].of_class * in_.plan.stages +
                                 static_cast<std::uint32_t>(what.peer_stage);
  Worker& at = workers_[receiver];
  const std::uint32_t wanted = at.index->receive(what.phase, what.micro_batch, what.chunk);
  ensure(wanted != kNone, "every send has its receive");
  const bool waits = at.here[wanted];
  at.here[wanted] = true;
  ended(worker, op);
  if (!over_ && waits) ended(receiver, wanted);
}

void Execution::receive(std::uint32_t worker, std::uint32_t op) {
  Worker& at = workers_[worker];
  if (at.here[op]) return ended(worker, op);
  at.here[op] = true;
}

void Execution::arrive(std::uint32_t worker, std::uint32_t op) {
  const Worker& at = workers_[worker];
  const Communicator which = at.index->ops()[op].communicator;
  std::uint32_t joined = 0;
  for (const std::uint32_t group : in_.plan.groups_of[worker]) {
    if (in_.plan.groups[group].communicator == which) ++joined;
  }
  if (joined > 1) shared_[{worker, op}] = joined;
  for (const std::uint32_t group : in_.plan.groups_of[worker]) {
    const GroupPlan& plan = in_.plan.groups[group];
    if (plan.communicator != which) continue;
    const auto own = std::lower_bound(plan.classes.begin(), plan.classes.end(), at.of_class) -
                     plan.classes.begin();
    const std::vector<std::uint32_t>& places = groups_[group].places[own];
    const std::uint32_t ordinal = at.index->ordinal(op);
    groups_[group].queue[places.empty() ? ordinal : places[ordinal]].arrived.emplace_back(worker,
                                                                                         op);
    next_collective(group);
    if (over_) return;
  }
}

void Execution::next_collective(std::uint32_t number) {
  Group& group = groups_[number];
  if (group.running || group.next == group.queue.size()) return;
  const Collective& due = group.queue[group.next];
  if (due.arrived.size() < due.expected) return;
  group.running = true;
  const GroupPlan::Way& way = in_.plan.collective(number, due.op->collective, due.op->bytes);
  flights_.start(in_.plan.comms[way.plan], way.carried, way.coding,
                 [this, number, from = clock()] { collective_ended(number, from); });
}

void Execution::collective_ended(std::uint32_t number, double from) {
  Group& group = groups_[number];
  const auto arrived = std::move(group.queue[group.next].arrived);
  for (const auto& [worker, op] : arrived) {
    note(worker, Slice::Track::communication, op_of(worker, op), from);
  }
  ++group.next;
  group.running = false;
  for (const auto& [worker, op] : arrived) {
    const auto others = shared_.find({worker, op});
    if (others != shared_.end() && --others->second > 0) continue;
    ended(worker, op);
    if (over_) return;
  }
  next_collective(number);
}

// ---- change and end -----------------------------------------------------------------------------

void Execution::change(const TimedChange& change) {
  if (over_) return;
  for (const auto& [rank, factor] : change.slow) state_.slow[rank.value] = factor;
  set_hardware();
  for (const auto& [link, rate] : change.bandwidth) {
    const auto slot = in_.plan.pinned.find(link.value);
    if (slot != in_.plan.pinned.end()) in_.engine.set_bandwidth(slot->second, rate);
  }
  for (const LinkId link : change.down) take_down(link);
  if (!change.fatal) return;
  out_.cut_short = true;
  finish();
}

void Execution::note(std::uint32_t worker, Slice::Track track, const Op& op, double from) {
  if (!in_.slices) return;
  out_.workers[worker].slices.push_back({track, slice_name(op), from, clock()});
}

/// No flow goes over a link that the plan does not have.
void Execution::take_down(LinkId link) {
  state_.down.insert(link.value);
  const auto slot = in_.plan.pinned.find(link.value);
  if (slot != in_.plan.pinned.end()) in_.engine.set_link_up(slot->second, false);
}

void Execution::fail(const CommPhase& phase) {
  for (const WideFlow& part : phase.parts) {
    for (const std::uint32_t slot : part.links) {
      const LinkId link = in_.plan.slots[slot].link;
      if (state_.down.contains(link.value)) out_.broken = link;
    }
  }
  ensure(out_.broken.has_value(), "a flow fails only over a link that is down");
  out_.cut_short = true;
  finish();
}

void Execution::finish() {
  over_ = true;
  flights_.end();
  out_.duration = clock();
  ended_ ? ended_() : in_.engine.cancel_all();
}

IterationRun Execution::run() {
  in_.engine.after(0, [this] { begin(); });
  in_.engine.run();
  return take();
}

IterationRun Execution::take() {
  ensure(over_, "every operation of a training step gets to run");
  out_.stage_passes_end.assign(in_.plan.stages, 0);
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    double& latest = out_.stage_passes_end[workers_[i].stage];
    latest = std::max(latest, out_.workers[i].passes_end);
  }
  return std::move(out_);
}

}  // namespace

std::uint32_t hosts_needed(const StepGraph& graph, bool full_detail) {
  return graph.data() * graph.pipeline() * (full_detail ? graph.members() : 1);
}

IterationRun run_iteration(const IterationRequest& request) { return Execution(request).run(); }

class StepUnderWay::Body : public Execution {
 public:
  using Execution::Execution;
};

StepUnderWay::StepUnderWay(const IterationRequest& request, std::function<void()> ended)
    : body_(std::make_unique<Body>(request, std::move(ended))) {
  body_->begin();
}
StepUnderWay::~StepUnderWay() = default;
IterationRun StepUnderWay::take() { return body_->take(); }

}  // namespace orrery
