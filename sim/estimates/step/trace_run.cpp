#include "sim/estimates/step/trace_run.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {
namespace {

/// Successors of every op, one array per program.
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

/// A collective or message of whole classes.
struct Communication {
  const std::vector<TracePhase>* phases = nullptr;
  std::vector<ClassOp> starts;   ///< all must have been reached
  std::vector<ClassOp> ends;     ///< end with it; a receive also has to be reached
  std::uint32_t missing = 0;     ///< of `starts`
  bool over = false;
};

constexpr std::uint32_t kNone = ~std::uint32_t{0};
enum Lane : std::size_t { kCompute, kHost, kMemory, kLanes };

class TraceRun {
 public:
  TraceRun(Engine& engine, const ChakraTrace& trace, const FoldedTrace& folded,
           const TracePlan& plan, const GpuModel& gpu, FlopPerSecond peak)
      : engine_(engine), trace_(trace), folded_(folded), plan_(plan), gpu_(gpu), peak_(peak) {}

  TraceRunResult run();

 private:
  using Ranked = std::pair<std::uint64_t, std::uint32_t>;  // (id, op): least first
  /// Messages before collectives: another rank waits for one with nothing to do, and it is short.
  /// Then the least id, then the communication.
  using Turn = std::tuple<bool, std::uint64_t, std::uint32_t>;
  struct ClassState {
    const RankProgram* program = nullptr;
    const Waiters* waiters = nullptr;
    std::vector<std::uint32_t> left;           ///< dependencies, by op
    std::vector<std::uint32_t> communication;  ///< by op; kNone: none
    std::array<std::priority_queue<Ranked, std::vector<Ranked>, std::greater<>>, kLanes> queue;
    std::array<bool, kLanes> busy{};
    bool communicating = false;
    std::set<Turn> startable;                  ///< communications that all have reached
    double since = 0;                          ///< accounted up to here
  };

  void build_classes();
  void build_communications();
  std::uint32_t add(Communication communication);
  void begin();
  void account(std::uint32_t of_class);

  void ready(ClassOp at);
  void ended(ClassOp at);
  void settle();
  void start_lane(std::uint32_t of_class, Lane lane);
  void reached(std::uint32_t communication);
  void start_communications(std::uint32_t of_class);
  Turn turn(const ClassOp& at, std::uint32_t communication) const;
  bool free_to_start(const Communication& communication) const;
  void start(std::uint32_t communication);
  void phase(std::uint32_t communication, std::size_t number);
  void end(std::uint32_t communication);
  [[noreturn]] void fail_stuck() const;

  Engine& engine_;
  const ChakraTrace& trace_;
  const FoldedTrace& folded_;
  const TracePlan& plan_;
  const GpuModel& gpu_;
  const FlopPerSecond peak_;
  std::vector<Waiters> waiters_;  ///< by program
  std::vector<ClassState> classes_;
  std::vector<Communication> communications_;
  std::vector<ClassOp> just_ended_;       ///< to be told to those that wait
  std::set<std::uint32_t> touched_;       ///< classes that may start something
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
    state.communication.assign(state.program->ops.size(), kNone);
    unfinished_ += state.program->ops.size();
  }
}

std::uint32_t TraceRun::add(Communication communication) {
  const auto index = static_cast<std::uint32_t>(communications_.size());
  communication.missing = static_cast<std::uint32_t>(communication.starts.size());
  for (const ClassOp& at : communication.starts) {
    classes_[at.of_class].communication[at.op] = index;
  }
  for (const ClassOp& at : communication.ends) {
    classes_[at.of_class].communication[at.op] = index;
  }
  communications_.push_back(std::move(communication));
  return index;
}

void TraceRun::build_communications() {
  for (std::size_t i = 0; i < folded_.collectives.size(); ++i) {
    const std::vector<ClassOp>& ops = folded_.collectives[i].ops;
    add({.phases = &plan_.collectives[i].phases, .starts = ops, .ends = ops});
  }
  for (std::size_t i = 0; i < folded_.sends.size(); ++i) {
    const FoldedSend& send = folded_.sends[i];
    add({.phases = &plan_.sends[i].phases, .starts = {send.from}, .ends = {send.from, send.to}});
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
  settle();
}

/// What a class did since the last change goes to its account.
void TraceRun::account(std::uint32_t of_class) {
  ClassState& state = classes_[of_class];
  const double span = engine_.now() - std::exchange(state.since, engine_.now());
  if (state.busy[kCompute]) {
    result_.classes[of_class].compute += span;
  } else if (state.communicating) {
    result_.classes[of_class].exposed += span;
  }
}

/// Nothing that it depends on is left.
void TraceRun::ready(ClassOp at) {
  ClassState& state = classes_[at.of_class];
  const TraceOp& op = state.program->ops[at.op];
  switch (op.kind) {
    case TraceOpKind::none: ended(at); return;
    case TraceOpKind::compute:
    case TraceOpKind::memory: {
      const Lane lane = op.cpu ? kHost : op.kind == TraceOpKind::memory ? kMemory : kCompute;
      state.queue[lane].emplace(op.id, at.op);
      touched_.insert(at.of_class);
      return;
    }
    case TraceOpKind::receive:
      // `left` is zero now, which is how the message's end sees that it has been reached.
      if (communications_[state.communication[at.op]].over) ended(at);
      return;
    case TraceOpKind::send:
    case TraceOpKind::collective: reached(state.communication[at.op]); return;
  }
}

void TraceRun::ended(ClassOp at) {
  --unfinished_;
  just_ended_.push_back(at);
}

/// Passes on what has ended until nothing follows from it, then starts what can be.
void TraceRun::settle() {
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
    start_communications(of_class);
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
      ended(at);
      continue;
    }
    account(of_class);
    state.busy[lane] = true;
    // Nothing shares a GPU here: a timer says the same as an execution, at a tenth of the cost.
    engine_.after(seconds, [this, at, lane] {
      account(at.of_class);
      classes_[at.of_class].busy[lane] = false;
      ended(at);
      settle();
    });
  }
}

// ---- communication ------------------------------------------------------------------------------

void TraceRun::reached(std::uint32_t communication) {
  Communication& it = communications_[communication];
  if (--it.missing > 0) return;
  for (const ClassOp& at : it.starts) {
    classes_[at.of_class].startable.insert(turn(at, communication));
    touched_.insert(at.of_class);
  }
}

TraceRun::Turn TraceRun::turn(const ClassOp& at, std::uint32_t communication) const {
  const TraceOp& op = classes_[at.of_class].program->ops[at.op];
  return {op.kind == TraceOpKind::collective, op.id, communication};
}

bool TraceRun::free_to_start(const Communication& communication) const {
  return std::none_of(communication.starts.begin(), communication.starts.end(),
                      [&](const ClassOp& at) { return classes_[at.of_class].communicating; });
}

/// Only the one whose turn it is: a later one that overtakes it, because a member is about to
/// become free in this same instant, would make the order depend on how instants are worked off.
void TraceRun::start_communications(std::uint32_t of_class) {
  const ClassState& state = classes_[of_class];
  if (state.communicating || state.startable.empty()) return;
  const std::uint32_t next = std::get<2>(*state.startable.begin());
  if (free_to_start(communications_[next])) start(next);
}

void TraceRun::start(std::uint32_t communication) {
  Communication& it = communications_[communication];
  for (const ClassOp& at : it.starts) {
    ClassState& state = classes_[at.of_class];
    account(at.of_class);
    state.communicating = true;
    state.startable.erase(turn(at, communication));
  }
  phase(communication, 0);
}

void TraceRun::phase(std::uint32_t communication, std::size_t number) {
  const std::vector<TracePhase>& phases = *communications_[communication].phases;
  if (number == phases.size()) {
    end(communication);
    return;
  }
  const auto flow = [this, communication, number] {
    const TracePhase& what = (*communications_[communication].phases)[number];
    const std::vector<std::uint32_t>& links = plan_.links.of_flow[what.flow];
    engine_.flow(links, what.bytes, [this, communication, number](bool ok) {
      ensure(ok, "no link of a trace goes down");
      phase(communication, number + 1);
      settle();
    });
  };
  if (phases[number].latency > 0) {
    engine_.after(phases[number].latency, flow);
  } else {
    flow();
  }
}

void TraceRun::end(std::uint32_t communication) {
  Communication& it = communications_[communication];
  it.over = true;
  for (const ClassOp& at : it.starts) {
    account(at.of_class);
    classes_[at.of_class].communicating = false;
    touched_.insert(at.of_class);
    // Others may have waited for this class alone.
    for (const auto& [collective, id, other] : classes_[at.of_class].startable) {
      for (const ClassOp& member : communications_[other].starts) touched_.insert(member.of_class);
    }
  }
  for (const ClassOp& at : it.ends) {
    const ClassState& state = classes_[at.of_class];
    const bool receive = state.program->ops[at.op].kind == TraceOpKind::receive;
    if (!receive || state.left[at.op] == 0) ended(at);
  }
}

// ---- the whole ----------------------------------------------------------------------------------

void TraceRun::fail_stuck() const {
  const auto name = [&](const ClassOp& at) {
    const std::uint32_t rank = folded_.classes[at.of_class].members.front();
    return fmt::format("node {} of rank {}",
                       classes_[at.of_class].program->ops[at.op].id + trace_.ranks[rank].first_id,
                       rank);
  };
  for (const Communication& it : communications_) {
    if (it.over) continue;
    const ClassOp *here = nullptr, *absent = nullptr;
    for (const ClassOp& at : it.starts) {
      (classes_[at.of_class].left[at.op] == 0 ? here : absent) = &at;
    }
    for (const ClassOp& at : it.ends) {
      if (classes_[at.of_class].left[at.op] == 0) here = &at;
    }
    if (here == nullptr || absent == nullptr) continue;
    throw Error(ErrorKind::bad_input,
                fmt::format("{}: the ranks wait for each other: {} waits for {}, which is never "
                            "reached", trace_.name, name(*here), name(*absent)));
  }
  throw Error(ErrorKind::bad_input, trace_.name + ": the ranks wait for each other");
}

TraceRunResult TraceRun::run() {
  build_classes();
  build_communications();
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

}  // namespace orrery
