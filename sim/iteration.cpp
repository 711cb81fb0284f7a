#include "sim/iteration.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <tuple>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {
namespace {

constexpr std::uint32_t kNone = ~0u;

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

struct Worker {
  std::uint32_t of_class = 0;
  std::uint32_t stage = 0;
  const Program* program = nullptr;
  std::vector<std::uint32_t> missing;                  ///< by op: dependencies not yet ended
  std::vector<std::vector<std::uint32_t>> dependents;  ///< by op
  std::vector<std::uint32_t> compute_order;            ///< ops
  std::size_t next_compute = 0;
  bool busy = false;
  double block_began = 0;
  std::uint32_t running_members = 0;  ///< tensor ranks still in the block
  std::vector<std::uint32_t> backward_left;  ///< by micro-batch: backward blocks to come
};

/// One data-parallel collective of a stage: begins when every class has come to it.
struct Collective {
  const Op* op = nullptr;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> arrived;  ///< (worker, op)
};
struct Group {
  std::vector<Collective> queue;  ///< in program order
  std::size_t next = 0;           ///< one at a time, as on one stream
  bool running = false;
};

struct Transfer {
  bool arrived = false;
  std::uint32_t waiting_op = kNone;
};

class Execution {
 public:
  explicit Execution(const IterationRequest& request) : in_(request) {}
  IterationRun run();

 private:
  using TransferKey = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, Phase, std::uint32_t>;

  void lay_out();
  void add_worker(std::uint32_t of_class, std::uint32_t stage);
  void set_hardware();
  void begin();
  double clock() const { return in_.engine.now() - began_; }

  std::uint32_t host(std::uint32_t worker, std::uint32_t member) const {
    return worker * in_.plan.tensor_hosts + member;
  }
  double slow_of(std::uint32_t worker, std::uint32_t member) const;

  void ready(std::uint32_t worker, std::uint32_t op);
  void ended(std::uint32_t worker, std::uint32_t op);
  void next_block(std::uint32_t worker);
  void start_block(std::uint32_t worker, std::uint32_t op);
  void member_ended(std::uint32_t worker, std::uint32_t op);
  void block_ended(std::uint32_t worker, std::uint32_t op, double kernels_end);
  void send(std::uint32_t worker, std::uint32_t op);
  void receive(std::uint32_t worker, std::uint32_t op);
  void arrive(std::uint32_t worker, std::uint32_t op);
  void next_collective(std::uint32_t stage);
  void collective_ended(std::uint32_t stage, double from);
  void communicate(const CommPlan& plan, double bytes, double rounds,
                   std::function<void()> then);
  void change(const TimedChange& change);
  void note(std::uint32_t worker, Slice::Track track, const Op& op, double from);
  void take_down(LinkId link);
  void fail(const WideFlow& flow);
  void finish();

  const IterationRequest& in_;
  IterationRun out_;
  HardwareState state_;
  std::vector<Worker> workers_;
  std::vector<Group> groups_;  ///< by stage
  std::map<std::tuple<std::uint32_t, std::uint32_t>, std::uint32_t> ordinal_;  // (worker, op)
  std::map<TransferKey, Transfer> transfers_;
  std::size_t ops_left_ = 0;
  double began_ = 0;
  bool over_ = false;
};

// ---- set-up -------------------------------------------------------------------------------

void Execution::add_worker(std::uint32_t of_class, std::uint32_t stage) {
  Worker worker;
  worker.of_class = of_class;
  worker.stage = stage;
  worker.program = &in_.graph.program(stage, in_.plan.classes[of_class].micro_batches);
  const std::vector<Op>& ops = worker.program->ops;
  worker.dependents.resize(ops.size());
  worker.backward_left.resize(worker.program->micro_batches);
  std::uint32_t collectives = 0;
  for (std::uint32_t i = 0; i < ops.size(); ++i) {
    worker.missing.push_back(static_cast<std::uint32_t>(ops[i].after.size()));
    for (const std::uint32_t before : ops[i].after) worker.dependents[before].push_back(i);
    if (ops[i].kind == OpKind::compute) {
      worker.compute_order.push_back(i);
      if (ops[i].phase == Phase::backward) ++worker.backward_left.at(ops[i].micro_batch);
    }
    if (ops[i].kind != OpKind::collective) continue;
    Group& group = groups_[stage];
    if (group.queue.size() <= collectives) group.queue.push_back({.op = &ops[i], .arrived = {}});
    ordinal_[{static_cast<std::uint32_t>(workers_.size()), i}] = collectives++;
  }
  ops_left_ += ops.size();
  workers_.push_back(std::move(worker));
}

void Execution::lay_out() {
  groups_.resize(in_.plan.stages);
  for (std::uint32_t c = 0; c < in_.plan.classes.size(); ++c) {
    for (std::uint32_t stage = 0; stage < in_.plan.stages; ++stage) add_worker(c, stage);
  }
  out_.workers.resize(workers_.size());
  ensure(workers_.size() * in_.plan.tensor_hosts <= in_.engine.hosts(),
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
  if (in_.plan.tensor_hosts > 1) return state_.slow_of(in_.graph.rank(replica, at.stage, member));
  double slowest = 0;
  for (std::uint32_t t = 0; t < in_.graph.tensor(); ++t) {
    slowest = std::max(slowest, state_.slow_of(in_.graph.rank(replica, at.stage, t)));
  }
  return slowest;
}

void Execution::set_hardware() {
  for (std::uint32_t worker = 0; worker < workers_.size(); ++worker) {
    for (std::uint32_t member = 0; member < in_.plan.tensor_hosts; ++member) {
      in_.engine.set_speed(host(worker, member), 1 / slow_of(worker, member));
    }
  }
}

void Execution::begin() {
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
  for (std::uint32_t worker = 0; worker < workers_.size(); ++worker) {
    out_.workers[worker].progress.emplace_back(0.0, 0.0);
    for (std::uint32_t op = 0; op < workers_[worker].missing.size(); ++op) {
      if (workers_[worker].program->ops[op].after.empty()) ready(worker, op);
    }
  }
}

// ---- compute --------------------------------------------------------------------------------

void Execution::ready(std::uint32_t worker, std::uint32_t op) {
  switch (workers_[worker].program->ops[op].kind) {
    case OpKind::compute: next_block(worker); break;
    case OpKind::send: send(worker, op); break;
    case OpKind::receive: receive(worker, op); break;
    case OpKind::collective: arrive(worker, op); break;
  }
}

void Execution::ended(std::uint32_t worker, std::uint32_t op) {
  ++out_.events;
  if (--ops_left_ == 0) return finish();
  Worker& at = workers_[worker];
  for (const std::uint32_t dependent : at.dependents[op]) {
    if (--at.missing[dependent] == 0) ready(worker, dependent);
  }
}

void Execution::next_block(std::uint32_t worker) {
  Worker& at = workers_[worker];
  if (at.busy || at.next_compute == at.compute_order.size()) return;
  const std::uint32_t op = at.compute_order[at.next_compute];
  if (at.missing[op] > 0) return;
  ++at.next_compute;
  start_block(worker, op);
}

void Execution::start_block(std::uint32_t worker, std::uint32_t op) {
  Worker& at = workers_[worker];
  at.busy = true;
  at.block_began = clock();
  at.running_members = in_.plan.tensor_hosts;
  const BlockPrice& price = in_.prices[at.program->ops[op].block];
  for (std::uint32_t member = 0; member < in_.plan.tensor_hosts; ++member) {
    in_.engine.compute(host(worker, member), price.compute.value,
                       [this, worker, op](bool) { member_ended(worker, op); });
  }
}

void Execution::member_ended(std::uint32_t worker, std::uint32_t op) {
  if (--workers_[worker].running_members > 0) return;
  const double kernels_end = clock();
  const double tensor = in_.prices[workers_[worker].program->ops[op].block].tensor.value;
  if (tensor == 0) return block_ended(worker, op, kernels_end);
  in_.engine.after(tensor, [this, worker, op, kernels_end] {
    block_ended(worker, op, kernels_end);
  });
}

void Execution::block_ended(std::uint32_t worker, std::uint32_t op, double kernels_end) {
  Worker& at = workers_[worker];
  const Op& what = at.program->ops[op];
  WorkerRun& run = out_.workers[worker];
  const double now = clock();
  run.compute += kernels_end - at.block_began;
  run.tensor += now - kernels_end;
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
  ended(worker, op);
  if (!over_) next_block(worker);
}

// ---- communication ----------------------------------------------------------------------------

void Execution::communicate(const CommPlan& plan, double bytes, double rounds,
                            std::function<void()> then) {
  if (plan.parts.empty()) return then();
  const auto left = std::make_shared<std::size_t>(plan.parts.size());
  const double latency = plan.latency.value * rounds;
  for (const WideFlow& flow : plan.parts) {
    in_.engine.flow(flow.links, bytes * flow.share, [this, &flow, left, latency, then](bool ok) {
      if (over_) return;
      if (!ok) return fail(flow);
      if (--*left == 0) in_.engine.after(latency, then);
    });
  }
}

void Execution::send(std::uint32_t worker, std::uint32_t op) {
  const Worker& at = workers_[worker];
  const Op& what = at.program->ops[op];
  const auto to = static_cast<std::uint32_t>(what.peer_stage);
  const TransferKey key{at.of_class, at.stage, to, what.phase, what.micro_batch};
  const std::uint32_t receiver = at.of_class * in_.plan.stages + to;
  const double from = clock();
  communicate(in_.plan.transfer(at.of_class, at.stage, to), what.bytes.value, 1,
              [this, worker, op, key, receiver, from] {
                note(worker, Slice::Track::communication, workers_[worker].program->ops[op], from);
                Transfer& transfer = transfers_[key];
                transfer.arrived = true;
                const std::uint32_t waiting = transfer.waiting_op;
                ended(worker, op);
                if (!over_ && waiting != kNone) ended(receiver, waiting);
              });
}

void Execution::receive(std::uint32_t worker, std::uint32_t op) {
  const Worker& at = workers_[worker];
  const Op& what = at.program->ops[op];
  const auto from = static_cast<std::uint32_t>(what.peer_stage);
  Transfer& transfer =
      transfers_[{at.of_class, from, at.stage, what.phase, what.micro_batch}];
  if (transfer.arrived) return ended(worker, op);
  transfer.waiting_op = op;
}

void Execution::arrive(std::uint32_t worker, std::uint32_t op) {
  const std::uint32_t stage = workers_[worker].stage;
  Collective& collective = groups_[stage].queue[ordinal_.at({worker, op})];
  collective.arrived.emplace_back(worker, op);
  next_collective(stage);
}

void Execution::next_collective(std::uint32_t stage) {
  Group& group = groups_[stage];
  if (group.running || group.next == group.queue.size()) return;
  const Collective& due = group.queue[group.next];
  if (due.arrived.size() < in_.plan.classes.size()) return;
  group.running = true;
  const std::uint32_t n = in_.graph.data();
  const RingCost cost =
      due.op->collective == OpCollective::all_reduce ? ring_all_reduce(n) : ring_half(n);
  const double from = clock();
  communicate(in_.plan.rings[stage], due.op->bytes.value * cost.share, cost.rounds,
              [this, stage, from] { collective_ended(stage, from); });
}

void Execution::collective_ended(std::uint32_t stage, double from) {
  Group& group = groups_[stage];
  const auto arrived = group.queue[group.next].arrived;
  for (const auto& [worker, op] : arrived) {
    note(worker, Slice::Track::communication, workers_[worker].program->ops[op], from);
  }
  ++group.next;
  group.running = false;
  for (const auto& [worker, op] : arrived) {
    ended(worker, op);
    if (over_) return;
  }
  next_collective(stage);
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
  std::string name = phase_name(op.phase);
  if (op.kind == OpKind::collective) {
    name += fmt::format(" bucket {}", op.bucket);
  } else if (is_pass(op.phase)) {
    name += fmt::format(" {}", op.micro_batch);
    if (op.kind == OpKind::send) name += fmt::format(" to stage {}", op.peer_stage);
  }
  out_.workers[worker].slices.push_back({track, std::move(name), from, clock()});
}

/// No flow goes over a link that the plan does not have.
void Execution::take_down(LinkId link) {
  state_.down.insert(link.value);
  const auto slot = in_.plan.pinned.find(link.value);
  if (slot != in_.plan.pinned.end()) in_.engine.set_link_up(slot->second, false);
}

void Execution::fail(const WideFlow& flow) {
  for (const std::uint32_t slot : flow.links) {
    const LinkId link = in_.plan.slots[slot].link;
    if (state_.down.contains(link.value)) out_.broken = link;
  }
  ensure(out_.broken.has_value(), "a flow fails only over a link that is down");
  out_.cut_short = true;
  finish();
}

void Execution::finish() {
  over_ = true;
  out_.duration = clock();
  in_.engine.cancel_all();
}

IterationRun Execution::run() {
  state_ = in_.state;
  lay_out();
  in_.engine.after(0, [this] { begin(); });
  in_.engine.run();
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
  return graph.data() * graph.pipeline() * (full_detail ? graph.tensor() : 1);
}

IterationRun run_iteration(const IterationRequest& request) { return Execution(request).run(); }

}  // namespace orrery
