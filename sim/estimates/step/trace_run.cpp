#include "sim/estimates/step/trace_run.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "sim/estimates/step/trace_communications.hpp"

namespace orrery::estimates {
namespace {

/// Dependents of every operation, one array per program.
struct Waiters {
  std::vector<std::uint32_t> begin, ops;
};

Waiters waiters_of(const RankProgram& program) {
  Waiters out;
  const std::size_t count = program.ops.size();
  out.begin.assign(count + 1, 0);
  out.ops.resize(program.after.size());
  for (const std::uint32_t before : program.after) ++out.begin[before + 1];
  for (std::size_t i = 0; i < count; ++i) out.begin[i + 1] += out.begin[i];
  std::vector<std::uint32_t> fill(out.begin.begin(), out.begin.end() - 1);
  std::uint32_t at = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    for (; at < program.ops[i].after_end; ++at) out.ops[fill[program.after[at]]++] = i;
  }
  return out;
}

enum Lane : std::size_t { kCompute, kHost, kMemory, kLanes };

class TraceRun : private TraceCommunications::Owner {
 public:
  TraceRun(Engine& engine, const ChakraTrace& trace, const FoldedTrace& folded,
           const TracePlan& plan, const GpuModel& gpu, FlopPerSecond peak)
      : engine_(engine),
        trace_(trace),
        folded_(folded),
        plan_(plan),
        gpu_(gpu),
        peak_(peak),
        communications_(engine, trace, folded, plan, *this) {}

  TraceRunResult run();

 private:
  using Ranked = std::pair<std::uint64_t, std::uint32_t>;  // (id, op): least first
  struct ClassState {
    const RankProgram* program = nullptr;
    const Waiters* waiters = nullptr;
    std::vector<std::uint32_t> left;  ///< dependencies left, by operation
    std::array<std::priority_queue<Ranked, std::vector<Ranked>, std::greater<>>, kLanes> queue;
    std::array<bool, kLanes> busy{};
    double since = 0;  ///< time is attributed up to this instant
  };

  void build_classes();
  void begin();
  bool is_reached(ClassOp at) const override { return classes_[at.of_class].left[at.op] == 0; }
  void account_class(std::uint32_t of_class) override;
  void mark_class(std::uint32_t of_class) override { touched_.insert(of_class); }

  void ready(ClassOp at);
  void on_op_end(ClassOp at) override;
  void process_ends() override;
  void start_lane(std::uint32_t of_class, Lane lane);
  [[noreturn]] void fail_stuck() const;

  Engine& engine_;
  const ChakraTrace& trace_;
  const FoldedTrace& folded_;
  const TracePlan& plan_;
  const GpuModel& gpu_;
  const FlopPerSecond peak_;
  std::vector<Waiters> waiters_;  ///< dependents of each program
  std::vector<ClassState> classes_;
  TraceCommunications communications_;
  std::vector<ClassOp> just_ended_;  ///< ended operations whose dependents are not yet updated
  std::set<std::uint32_t> touched_;  ///< classes that may start an operation
  std::uint64_t unfinished_ = 0;
  TraceRunResult result_;
};

// ---- building -----------------------------------------------------------------------------------

void TraceRun::build_classes() {
  for (const RankProgram& program : trace_.programs) waiters_.push_back(waiters_of(program));
  result_.classes.resize(folded_.classes.size());
  classes_.resize(folded_.classes.size());
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    ClassState& state = classes_[i];
    state.program = &trace_.programs[folded_.classes[i].program];
    state.waiters = &waiters_[folded_.classes[i].program];
    std::uint32_t begin = 0;
    for (const TraceOp& op : state.program->ops) {
      state.left.push_back(op.after_end - std::exchange(begin, op.after_end));
    }
    unfinished_ += state.program->ops.size();
  }
}

// ---- dependencies -------------------------------------------------------------------------------

void TraceRun::begin() {
  for (std::uint32_t i = 0; i < classes_.size(); ++i) {
    classes_[i].since = engine_.now();
    for (std::uint32_t op = 0; op < classes_[i].left.size(); ++op) {
      if (classes_[i].left[op] == 0) ready({i, op});
    }
  }
  process_ends();
}

void TraceRun::account_class(std::uint32_t of_class) {
  ClassState& state = classes_[of_class];
  const double span = engine_.now() - std::exchange(state.since, engine_.now());
  if (state.busy[kCompute]) {
    result_.classes[of_class].compute += span;
  } else if (communications_.is_busy(of_class)) {
    result_.classes[of_class].exposed += span;
  }
}

void TraceRun::ready(ClassOp at) {
  ClassState& state = classes_[at.of_class];
  const TraceOp& op = state.program->ops[at.op];
  switch (op.kind) {
    case TraceOpKind::none: on_op_end(at); return;
    case TraceOpKind::compute:
    case TraceOpKind::memory: {
      const Lane lane = op.cpu ? kHost : op.kind == TraceOpKind::memory ? kMemory : kCompute;
      state.queue[lane].emplace(op.id, at.op);
      touched_.insert(at.of_class);
      return;
    }
    case TraceOpKind::receive:
      // `left` is zero now, so that the end of the message finds the receive reached.
      if (communications_.is_over(at)) on_op_end(at);
      return;
    case TraceOpKind::send:
    case TraceOpKind::collective: communications_.record_reached(at); return;
  }
}

void TraceRun::on_op_end(ClassOp at) {
  --unfinished_;
  just_ended_.push_back(at);
}

/// Processes ended operations until no further operation follows, then starts the possible ones.
void TraceRun::process_ends() {
  while (!just_ended_.empty() || !touched_.empty()) {
    if (!just_ended_.empty()) {
      const ClassOp at = just_ended_.back();
      just_ended_.pop_back();
      ClassState& state = classes_[at.of_class];
      touched_.insert(at.of_class);
      for (std::uint32_t i = state.waiters->begin[at.op]; i < state.waiters->begin[at.op + 1];
           ++i) {
        const std::uint32_t next = state.waiters->ops[i];
        if (--state.left[next] == 0) ready({at.of_class, next});
      }
      continue;
    }
    const std::uint32_t of_class = *touched_.begin();
    touched_.erase(touched_.begin());
    for (const Lane lane : {kCompute, kHost, kMemory}) start_lane(of_class, lane);
    communications_.start_next(of_class);
  }
  if (unfinished_ == 0) result_.duration = engine_.now();
}

// ---- computation --------------------------------------------------------------------------------

void TraceRun::start_lane(std::uint32_t of_class, Lane lane) {
  ClassState& state = classes_[of_class];
  auto& queue = state.queue[lane];
  while (!state.busy[lane] && !queue.empty()) {
    const ClassOp at{of_class, queue.top().second};
    queue.pop();
    const double seconds = price(state.program->ops[at.op], gpu_, peak_);
    if (seconds <= 0) {
      on_op_end(at);
      continue;
    }
    account_class(of_class);
    state.busy[lane] = true;
    // A timer suffices because nothing shares a GPU here, at a tenth of the cost of a computation.
    engine_.after(seconds, [this, at, lane] {
      account_class(at.of_class);
      classes_[at.of_class].busy[lane] = false;
      on_op_end(at);
      process_ends();
    });
  }
}

// ---- execution ----------------------------------------------------------------------------------

void TraceRun::fail_stuck() const {
  const auto name = [&](const ClassOp& at) {
    const std::uint32_t rank = folded_.classes[at.of_class].members.front();
    return fmt::format("node {} of rank {}",
                       classes_[at.of_class].program->ops[at.op].id + trace_.ranks[rank].first_id,
                       rank);
  };
  if (const auto stuck = communications_.stuck_pair()) {
    throw Error(ErrorKind::bad_input,
                fmt::format("{}: expected ranks that can finish, found ranks that wait for each "
                            "other: {} waits for {}, which is never reached; correct the "
                            "dependencies of these nodes",
                            trace_.name, name(stuck->first), name(stuck->second)));
  }
  throw Error(ErrorKind::bad_input,
              trace_.name + ": expected ranks that can finish, found ranks that wait for each "
                            "other; correct the dependencies");
}

TraceRunResult TraceRun::run() {
  build_classes();
  for (std::uint32_t link = 0; link < plan_.links.links.size(); ++link) {
    engine_.set_bandwidth(link, plan_.links.links[link].bandwidth);
  }
  engine_.after(0, [this] { begin(); });
  engine_.run();
  if (unfinished_ > 0) fail_stuck();
  return std::move(result_);
}

}  // namespace

TraceRunResult run_trace(Engine& engine, const ChakraTrace& trace, const FoldedTrace& folded,
                         const TracePlan& plan, const GpuModel& gpu, FlopPerSecond peak) {
  return TraceRun(engine, trace, folded, plan, gpu, peak).run();
}

}  // namespace orrery::estimates
