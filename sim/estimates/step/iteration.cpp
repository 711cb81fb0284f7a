#include "sim/estimates/step/iteration.hpp"

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "core/error.hpp"
#include "sim/estimates/step/collective_queues.hpp"
#include "sim/estimates/step/compute_streams.hpp"
#include "sim/estimates/step/flights.hpp"
#include "sim/estimates/step/stage_transfers.hpp"
#include "sim/estimates/step/step_hardware.hpp"
#include "sim/estimates/step/step_programs.hpp"
#include "sim/estimates/step/step_record.hpp"

namespace orrery::estimates {
namespace {

/// Returns true if the classes of a plan do not affect each other before all of them have reached
/// their first collective: every group has all classes, so that no collective begins before, and no
/// two classes send over one link.
bool has_separate_classes(const Plan& plan) {
  constexpr std::uint32_t kNobody = std::numeric_limits<std::uint32_t>::max();
  const auto classes = static_cast<std::uint32_t>(plan.classes.size());
  if (classes == 1 || plan.groups.empty()) return false;
  for (const GroupPlan& group : plan.groups) {
    if (group.classes.size() != classes) return false;
  }
  std::vector<std::uint32_t> class_on(plan.slots.size(), kNobody);
  const auto meets_other = [&](std::uint32_t transfer, std::uint32_t own) {
    if (transfer == Plan::kNoTransfer) return false;
    for (const CommPhase& phase : plan.comms[transfer].phases) {
      for (const WideFlow& flow : phase.parts) {
        for (const std::uint32_t slot : flow.links) {
          if (class_on[slot] != kNobody && class_on[slot] != own) return true;
          class_on[slot] = own;
        }
      }
    }
    return false;
  };
  for (std::uint32_t worker = 0; worker < plan.onward.size(); ++worker) {
    const std::uint32_t own = worker / plan.stages;
    if (meets_other(plan.onward[worker], own) || meets_other(plan.back[worker], own)) return false;
  }
  return true;
}

/// Execution of one step: passes each operation to the part that executes it once all dependencies
/// have ended.
class Execution : private OpListener {
 public:
  /// A step with `ended` shares the engine with others and cancels no activity at its end.
  explicit Execution(const IterationRequest& request, std::function<void()> ended = {})
      : in_(request),
        ended_(std::move(ended)),
        programs_(in_.graph, in_.plan, in_.prices, in_.merges_blocks),
        hardware_(in_, programs_),
        record_(in_.engine, in_.slices),
        flights_(in_.engine, in_.plan.comms, [this](const CommPhase& phase) { fail(phase); }),
        compute_(in_, programs_, hardware_, record_, *this),
        transfers_(in_.plan, programs_, flights_, record_, *this),
        collectives_(in_.plan, programs_, flights_, record_, *this) {}

  IterationRun run();
  void begin();
  void restart();
  IterationRun take();

 private:
  void on_op_end(std::uint32_t worker, std::uint32_t op) override;
  MemoryHint memory_of_end(std::uint32_t worker, std::uint32_t op) const override;
  bool is_over() const override { return over_; }
  void prepare();
  bool can_run_apart() const;
  void run_classes_apart();
  void start_ops();
  void start_ops(std::uint32_t first, std::uint32_t last);
  void ready(std::uint32_t worker, std::uint32_t op);
  void reach_collective(std::uint32_t worker, std::uint32_t op);
  void read(std::uint32_t worker, std::uint32_t op);
  void change(const TimedChange& change);
  void send_beside(const Background& other);
  void fail(const CommPhase& phase);
  void finish(bool cut_short);

  const IterationRequest& in_;
  const std::function<void()> ended_;
  StepPrograms programs_;
  StepHardware hardware_;
  StepRecord record_;
  Flights flights_;
  ComputeStreams compute_;
  StageTransfers transfers_;
  CollectiveQueues collectives_;
  bool over_ = false;
  bool apart_ = false;  ///< classes run one after the other
};

void Execution::begin() {
  prepare();
  for (const TimedChange& next : in_.changes) {
    in_.engine.after(next.at, [this, &next] { change(next); });
  }
  for (const Background& other : in_.background) send_beside(other);
  start_ops();
}

void Execution::prepare() {
  record_.begin(programs_.workers(), programs_.most_blocks());
  hardware_.begin();
}

bool Execution::can_run_apart() const {
  return in_.engine.can_run_parts() && in_.changes.empty() && in_.background.empty() &&
         has_separate_classes(in_.plan);
}

/// Runs each class alone until its first collective. The rest of the step is left to the engine.
void Execution::run_classes_apart() {
  prepare();
  const std::uint32_t stages = in_.plan.stages;
  apart_ = true;
  in_.engine.run_parts(programs_.workers() / stages, [&](std::uint32_t of_class) {
    start_ops(of_class * stages, (of_class + 1) * stages);
  });
  apart_ = false;
}

void Execution::start_ops() {
  start_ops(0, programs_.workers());
  if (programs_.is_done() && !over_) finish(false);
}

/// Starts the operations without dependencies of the workers from `first` to before `last`.
void Execution::start_ops(std::uint32_t first, std::uint32_t last) {
  for (std::uint32_t worker = first; worker < last; ++worker) {
    const std::vector<std::uint32_t>& missing = programs_.index(worker).missing();
    for (std::uint32_t op = 0; op < missing.size() && !over_; ++op) {
      if (missing[op] == 0) ready(worker, op);
    }
  }
}

/// Nothing of the step before is left on the engine, and the hardware has not changed.
void Execution::restart() {
  over_ = false;
  programs_.reset_progress();
  compute_.reset_streams();
  collectives_.reset_queues();
  flights_.accept_flights();
  record_.begin(programs_.workers(), programs_.most_blocks());
  start_ops();
}

void Execution::send_beside(const Background& other) {
  const std::uint32_t slot = in_.plan.pinned.at(other.link.value);
  in_.engine.after(other.at, [this, slot, bytes = other.bytes] {
    if (!over_) in_.engine.flow(std::span(&slot, 1), bytes, [](bool) {});
  });
}

void Execution::ready(std::uint32_t worker, std::uint32_t op) {
  switch (programs_.op(worker, op).kind) {
    case OpKind::compute: compute_.next(worker); break;
    case OpKind::send: transfers_.start_send(worker, op); break;
    case OpKind::receive: on_op_end(worker, op); break;  // its data is here
    case OpKind::collective: reach_collective(worker, op); break;
    case OpKind::read: read(worker, op); break;
  }
}

/// A class that runs alone pauses here: the arrival is recorded when all run together.
void Execution::reach_collective(std::uint32_t worker, std::uint32_t op) {
  if (!apart_) return collectives_.record_arrival(worker, op);
  in_.engine.pause_part();
  in_.engine.after(0, [this, worker, op] { collectives_.record_arrival(worker, op); });
}

void Execution::on_op_end(std::uint32_t worker, std::uint32_t op) {
  record_.event();
  const ProgramIndex& index = programs_.index(worker);
  const OpKind kind = index.ops()[op].kind;
  if (kind != OpKind::read) record_.end_work();
  if (programs_.end_one()) return finish(false);
  for (const std::uint32_t dependent : index.dependents(op)) {
    if (!programs_.satisfy_one(worker, dependent)) continue;
    if (index.ops()[dependent].kind == OpKind::compute) {
      compute_.set_last_dependency(worker, kind);
    }
    ready(worker, dependent);
    if (over_) return;
  }
}

/// A transfer to a neighbour may follow a block.
MemoryHint Execution::memory_of_end(std::uint32_t worker, std::uint32_t op) const {
  const Op& what = programs_.op(worker, op);
  return {{compute_.memory_of(worker), programs_.memory_of(worker, op),
           what.kind == OpKind::compute ? transfers_.memory_of(worker, what.phase) : nullptr}};
}

/// The reader works in parallel with everything else.
void Execution::read(std::uint32_t worker, std::uint32_t op) {
  in_.engine.after(in_.graph.read_interval().value, [this, worker, op] { on_op_end(worker, op); });
}

void Execution::change(const TimedChange& change) {
  if (over_) return;
  hardware_.apply_change(change);
  if (change.fatal) finish(true);
}

void Execution::fail(const CommPhase& phase) {
  const auto broken = hardware_.broken_link(phase);
  ensure(broken.has_value(), "a flow fails only over a link that is down");
  record_.broken_by(*broken);
  finish(true);
}

void Execution::finish(bool cut_short) {
  over_ = true;
  flights_.end();
  compute_.record_blocks();
  record_.end(cut_short);
  ended_ ? ended_() : in_.engine.cancel_all();
}

IterationRun Execution::run() {
  if (can_run_apart()) {
    run_classes_apart();
  } else {
    in_.engine.after(0, [this] { begin(); });
  }
  in_.engine.run();
  return take();
}

IterationRun Execution::take() {
  ensure(over_, "every operation of a training step runs");
  IterationRun run = record_.take_run(in_.plan.stages);
  run.clock = in_.state.clock;
  return run;
}

}  // namespace

std::uint32_t hosts_needed(const StepGraph& graph) { return graph.ranks(); }

IterationRun run_iteration(const IterationRequest& request) { return Execution(request).run(); }

class CurrentStep::Body : public Execution {
 public:
  using Execution::Execution;
};

CurrentStep::CurrentStep(const IterationRequest& request, std::function<void()> ended)
    : body_(std::make_unique<Body>(request, std::move(ended))) {
  body_->begin();
}
CurrentStep::~CurrentStep() = default;
IterationRun CurrentStep::take_run() { return body_->take(); }
void CurrentStep::repeat_step() { body_->restart(); }

}  // namespace orrery::estimates
