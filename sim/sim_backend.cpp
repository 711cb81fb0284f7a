#include "sim/sim_backend.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include <fmt/format.h>

#include "core/error.hpp"
#include "sim/sim_timeline.hpp"
#include "traces/scenario.hpp"

namespace orrery {
namespace {

constexpr std::size_t kShiftIndex = 2, kWakeIndex = 12;
static_assert(std::is_same_v<std::variant_alternative_t<kShiftIndex, Action>, ShiftMicrobatches>);
static_assert(std::is_same_v<std::variant_alternative_t<kWakeIndex, Action>, WakeMe>);

constexpr JobId kJob{0};
/// Some room is left before the policy clock overflows.
constexpr Nanos kLongestRun = 9'000'000'000 * kNanosPerSecond;

std::vector<GpuId> place(const StepGraph& graph, const Cluster& cluster) {
  if (graph.ranks() > cluster.gpus()) {
    throw Error(ErrorKind::bad_input,
                fmt::format("the job's layout needs {} GPUs, the cluster has {}", graph.ranks(),
                            cluster.gpus()));
  }
  const std::uint32_t per_node = cluster.shape().gpus_per_node;
  if (per_node % graph.tensor() != 0) {
    throw Error(ErrorKind::bad_input,
                fmt::format("job.layout.tensor: {} GPUs of a tensor-parallel group do not fit into "
                            "nodes of {}", graph.tensor(), per_node));
  }
  std::vector<GpuId> gpus(graph.ranks());
  for (std::uint32_t rank = 0; rank < gpus.size(); ++rank) gpus[rank] = {rank};
  return gpus;
}

void check_memory(const StepGraph& graph, const Cluster& cluster) {
  const double room = cluster.gpu_model().memory.value;
  const std::uint32_t share = (graph.micro_batches() + graph.data() - 1) / graph.data();
  for (std::uint32_t stage = 0; stage < graph.pipeline(); ++stage) {
    const MemoryUse use = graph.memory(stage, share);
    if (use.total().value <= room) continue;
    const auto gib = [](Bytes bytes) { return bytes.value / (1ull << 30); };
    throw Error(ErrorKind::bad_input,
                fmt::format("job.layout: out of memory: stage {} needs {:.1f} GiB per GPU, {} has "
                            "{:.1f} GiB (parameters {:.1f}, gradients {:.1f}, optimizer {:.1f}, "
                            "activations {:.1f}, buffers {:.1f})",
                            stage, gib(use.total()), cluster.gpu_model().name, gib({room}),
                            gib(use.parameters), gib(use.gradients), gib(use.optimizer),
                            gib(use.activations), gib(use.buffers)));
  }
}

}  // namespace

SimBackend::SimBackend(const RunRequest& request, const Cluster& cluster, ProgressSink progress)
    : request_(request),
      cluster_(cluster),
      progress_(std::move(progress)),
      graph_(request_.scenario().job()),
      placement_(place(graph_, cluster)),
      world_(cluster),
      faults_(request_.scenario(), cluster, placement_),
      stepper_(cluster, graph_, placement_,
               {.full_detail = request_.full_detail(), .slices = !request_.timeline().empty()}),
      telemetry_(cluster, graph_, placement_, request_.scenario().noise(),
                 request_.scenario().run().seed()),
      accounts_(cluster, graph_) {
  check_memory(graph_, cluster);
  if (!request_.timeline().empty()) timeline_ = std::make_unique<SimTimeline>(request_.timeline());
}

SimBackend::~SimBackend() = default;

Capabilities SimBackend::capabilities() const {
  return {.signals = kJobs | kSteps | kDevices | kLinks | kRanks | kMembership,
          .actions = action_bit(kShiftIndex) | action_bit(kWakeIndex)};
}

void SimBackend::begin(const Needs& needs) {
  needs_ = needs;
  if (needs_.tick_period > 0) next_tick_ = needs_.tick_period;
}

// ---- observations ---------------------------------------------------------------------------

void SimBackend::submit() {
  const Scenario& scenario = request_.scenario();
  JobSpec spec;
  spec.id = kJob;
  spec.name = scenario.name();
  spec.gpus = graph_.ranks();
  spec.tensor = graph_.tensor();
  spec.pipeline = graph_.pipeline();
  spec.data = graph_.data();
  spec.micro_batches = graph_.micro_batches();
  const double even = static_cast<double>(graph_.micro_batches()) / graph_.data();
  spec.max_micro_batches = static_cast<std::uint32_t>(
      std::max(std::ceil(even), std::floor(even * scenario.job().max_share())));
  spec.steps = scenario.run().steps();
  spec.nominal_micro_batch_time = to_nanos(stepper_.nominal_micro_batch_time());
  events_.push_back(JobSubmitted{.job = spec, .placed = placement_});
  submitted_ = true;
}

std::optional<Observation> SimBackend::next() {
  events_.clear();
  devices_.clear();
  links_.clear();
  ranks_.clear();
  if (over_) return {};
  if (!submitted_) {
    submit();
  } else {
    advance();
  }
  return observe();
}

Observation SimBackend::observe() {
  std::stable_sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) {
    return a.index() < b.index();
  });
  bool sampled = false;
  for (const Event& event : events_) {
    world_.apply(event);
    sampled = sampled || std::holds_alternative<Tick>(event) ||
              std::holds_alternative<StepDone>(event);
  }
  if (sampled && circumstances_) {
    if ((needs_.signals & kRanks) != 0) telemetry_.ranks(now_, ranks_);
    if ((needs_.signals & kDevices) != 0) telemetry_.devices(now_, devices_);
    if ((needs_.signals & kLinks) != 0) {
      telemetry_.links(now_, stepper_, circumstances_->state, links_);
    }
  }
  return {.now = now_, .epoch = {}, .sequence = calls_++, .events = events_,
          .devices = devices_, .links = links_, .ranks = ranks_, .collectives = {},
          .cluster = cluster_, .state = world_.state(), .jobs = world_.jobs()};
}

// ---- decisions --------------------------------------------------------------------------------

DecisionOutcome SimBackend::outcome_of(const Decision& decision) const {
  DecisionOutcome outcome{.decision = decision.number, .status = Outcome::rejected, .reason = {}};
  if (decision.expires < now_ || (decision.if_epoch && decision.if_epoch->value != 0)) {
    outcome.status = Outcome::expired;
    return outcome;
  }
  outcome.reason = world_.objection(decision);
  if (!outcome.reason.empty()) return outcome;
  if ((capabilities().actions & action_bit(decision.what.index())) == 0) {
    outcome.reason = "not possible in this run";
  } else if (decision.effective_at_step == step_ && decision.effective_at_step != 0 &&
             open_.has_value() && std::holds_alternative<ShiftMicrobatches>(decision.what)) {
    outcome.reason = fmt::format("step {} has begun", step_);
  } else {
    outcome.status = Outcome::applied;
  }
  return outcome;
}

void SimBackend::decide(const Decision& decision) {
  world_.announce(decision);
  const bool shift = std::holds_alternative<ShiftMicrobatches>(decision.what);
  if (shift && decision.effective_at_step == 0 && open_.has_value()) {
    held_.push_back(decision);  // at once is: from the next step on
    return;
  }
  const DecisionOutcome outcome = outcome_of(decision);
  within_.emplace_back(now_, outcome);
  if (outcome.status != Outcome::applied) return;
  if (shift && decision.effective_at_step > step_) effects_.insert(decision.effective_at_step);
  if (const auto* wake = std::get_if<WakeMe>(&decision.what)) {
    wakes_.insert(std::max(wake->at, now_));
  }
}

void SimBackend::apply(std::span<const Decision> decisions, bool at_rest) {
  at_rest_ = at_rest;
  for (const Decision& decision : decisions) decide(decision);
}

// ---- time -------------------------------------------------------------------------------------

const std::vector<std::uint32_t>& SimBackend::per_replica() const {
  return world_.jobs()[kJob.value].per_replica;
}

/// A promise to rest holds for what the policy has seen: not before it was shown a whole step
/// under the present circumstances. One that looks at nothing may rest at any time.
bool SimBackend::resting() const {
  const bool looks = needs_.tick_period > 0 || (needs_.signals & ~std::uint32_t{kJobs}) != 0;
  return at_rest_ && (watched_ || !looks);
}

/// The first later step at which something may differ, or the end.
Step SimBackend::next_boundary() const {
  Step boundary = request_.scenario().run().steps();
  if (const auto change = faults_.next_change(step_)) boundary = std::min(boundary, *change);
  const auto effect = effects_.upper_bound(step_);
  if (effect != effects_.end()) boundary = std::min(boundary, *effect);
  return boundary;
}

std::optional<Nanos> SimBackend::next_interruption() const {
  std::optional<Nanos> next = faults_.next_instant(now_ - 1);
  if (!wakes_.empty() && (!next || *wakes_.begin() < *next)) next = *wakes_.begin();
  return next;
}

void SimBackend::enter_circumstances() {
  Circumstances now{.state = faults_.state(step_, now_), .per_replica = per_replica()};
  if (circumstances_ == now) return;
  circumstances_ = std::move(now);
  watched_ = false;
  tell_links(now_);
}

/// Links that go down or come back at `at`.
void SimBackend::tell_links(Nanos at) {
  const std::set<std::uint32_t> now = faults_.state(step_, at).down;
  for (const std::uint32_t link : now) {
    if (!down_.contains(link)) within_.emplace_back(at, LinkDown{{link}});
  }
  for (const std::uint32_t link : down_) {
    if (!now.contains(link)) within_.emplace_back(at, LinkUp{{link}});
  }
  down_ = now;
}

void SimBackend::advance() {
  while (events_.empty() && !over_) {
    if (!open_) enter_circumstances();
    pass_instants(now_);
    if (!events_.empty()) break;
    if (!open_) {
      if (resting() && skip_ahead()) continue;
      open_step();
    }
    now_ = next_stop();
    if (now_ == open_->end()) close_step();
    pass_instants(now_);
    if (now_ == next_tick_ && !resting()) events_.push_back(Tick{});
    pass_ticks();
  }
}

/// A resting policy gets no ticks, but those of later keep their rhythm.
void SimBackend::pass_ticks() {
  if (next_tick_ > now_) return;
  next_tick_ = (now_ / needs_.tick_period + 1) * needs_.tick_period;
}

/// Events whose time has come.
void SimBackend::pass_instants(Nanos now) {
  for (const auto& [at, event] : within_) {
    if (at <= now) events_.push_back(event);
  }
  std::erase_if(within_, [now](const auto& entry) { return entry.first <= now; });
  if (!wakes_.empty() && *wakes_.begin() <= now) {
    wakes_.erase(wakes_.begin(), wakes_.upper_bound(now));
    events_.push_back(Tick{});
  }
}

Nanos SimBackend::next_stop() const {
  Nanos stop = open_->end();
  if (!resting()) stop = std::min(stop, next_tick_);
  if (!wakes_.empty()) stop = std::min(stop, *wakes_.begin());
  for (const auto& [at, event] : within_) stop = std::min(stop, at);
  return stop;
}

/// How many steps like `each` end by `limit` and before `boundary`; their durations are
/// committed, `last` gets that of the last one.
std::uint64_t SimBackend::steps_until(Step boundary, const SimulatedStep& each, Nanos limit,
                                      Nanos* last) {
  const Nanos plain = length_of(each, {});
  *last = plain;
  if (request_.scenario().noise().compute_cv() == 0) {
    const auto room = static_cast<std::uint64_t>((limit - now_) / std::max<Nanos>(plain, 1));
    const std::uint64_t count = std::min<std::uint64_t>(boundary - step_, room);
    if (count > 0) accounts_.commit(each, plain, count, per_replica());
    now_ += plain * static_cast<Nanos>(count);
    return count;
  }
  std::uint64_t count = 0;
  for (; step_ + count < boundary; ++count) {
    const std::vector<double> stretch = telemetry_.stretch(step_ + count, graph_.data());
    const Nanos duration = length_of(each, stretch);
    if (duration > limit - now_) break;
    accounts_.commit(each, duration, 1, per_replica(), stretch);
    now_ += duration;
    *last = duration;
  }
  return count;
}

bool SimBackend::skip_ahead() {
  if (request_.full_detail() || faults_.kill(step_, now_, now_ + 1)) return false;
  const std::uint64_t simulated = stepper_.simulated();
  const auto each = stepper_.step(circumstances_->state, per_replica());
  if (stepper_.simulated() > simulated) show_slices(*each);
  if (each->run.cut_short) return false;
  Nanos last = 0;
  const std::uint64_t count =
      steps_until(next_boundary(), *each, next_interruption().value_or(kNever), &last);
  if (count == 0) return false;
  step_ += count - 1;
  telemetry_.begin_step(
      PlayedStep(step_, now_ - last, each, telemetry_.stretch(step_, graph_.data())));
  pass_ticks();
  step_done(last, true);
  return true;
}

/// What changes while a step of `duration` goes on. Nothing comes after a killed rank.
std::vector<Stepper::Change> SimBackend::changes_within(Nanos duration) const {
  std::vector<Stepper::Change> changes;
  const auto kill = faults_.kill(step_, now_, now_ + duration);
  for (const Nanos instant : faults_.instants(now_ - 1, kill ? kill->at : now_ + duration)) {
    FaultPlan::Touched touched = faults_.touched(instant);
    changes.push_back({.at = to_seconds(instant - now_),
                       .state = faults_.state(step_, instant),
                       .ranks = std::move(touched.ranks),
                       .links = std::move(touched.links)});
  }
  if (kill) {
    changes.push_back({.at = to_seconds(kill->at - now_),
                       .state = faults_.state(step_, kill->at),
                       .fatal = true});
  }
  return changes;
}

/// Throws bad_input where the policy clock would run out.
Nanos SimBackend::length_of(const SimulatedStep& step, const std::vector<double>& stretch) const {
  const double seconds =
      step.run.cut_short ? step.run.duration : stretched_duration(step, stretch);
  if (seconds < to_seconds(kLongestRun - now_)) return to_nanos(seconds);
  throw Error(ErrorKind::bad_input,
              fmt::format("run.steps: step {} would end after more than 285 simulated years",
                          step_));
}

/// The step about to begin with what happens during it, which may lengthen it, so that more
/// happens.
std::shared_ptr<const SimulatedStep> SimBackend::simulate_step(
    const std::vector<double>& stretch) {
  auto what = stepper_.step(circumstances_->state, per_replica());
  std::size_t known = 0;
  for (;;) {
    const auto changes = changes_within(length_of(*what, stretch));
    if (changes.size() <= known) break;
    known = changes.size();
    what = stepper_.step_with(circumstances_->state, per_replica(), changes);
  }
  // Noise is beyond the simulated step: a rank may be killed in what it adds.
  const auto kill = faults_.kill(step_, now_, now_ + length_of(*what, stretch));
  if (!kill || what->run.cut_short) return what;
  auto cut = std::make_shared<SimulatedStep>(*what);
  cut->run.cut_short = true;
  cut->run.duration = to_seconds(kill->at - now_);
  return cut;
}

void SimBackend::open_step() {
  const std::uint64_t simulated = stepper_.simulated();
  std::vector<double> stretch = telemetry_.stretch(step_, graph_.data());
  auto what = simulate_step(stretch);
  if (what->run.cut_short) stretch.clear();
  if (stepper_.simulated() > simulated) show_slices(*what);
  open_.emplace(step_, now_, std::move(what), std::move(stretch));
  for (const Nanos instant : faults_.instants(now_, open_->end())) tell_links(instant);
  telemetry_.begin_step(*open_);
}

void SimBackend::close_step() {
  const PlayedStep played = std::move(*open_);
  open_.reset();
  if (played.what().run.cut_short) {
    accounts_.lose(played.duration());
    return die(played);
  }
  accounts_.commit(played.what(), played.duration(), 1, per_replica(), played.stretch());
  // A resting policy is told of the last step before something may differ.
  const bool tell = !resting() || step_ + 1 >= next_boundary() || !held_.empty();
  step_done(played.duration(), tell);
  watched_ = watched_ || tell;
}

/// Step `step_` is committed at `now_`.
void SimBackend::step_done(Nanos duration, bool tell) {
  last_commit_ = now_;
  const Step done = step_++;
  effects_.erase(effects_.begin(), effects_.upper_bound(done));
  const Step steps = request_.scenario().run().steps();
  if (tell) events_.push_back(StepDone{.job = kJob, .step = done, .duration = duration});
  for (const Decision& decision : std::exchange(held_, {})) {
    events_.push_back(outcome_of(decision));
  }
  if (step_ == steps) {
    events_.push_back(JobDone{kJob});
    over_ = true;
  }
  if (!progress_) return;
  Progress progress;
  progress.set_steps_done(step_);
  progress.set_steps(steps);
  progress.set_elapsed_s(to_seconds(now_));
  progress_(progress);
}

/// The step under way will never be committed: the run ends here.
void SimBackend::die(const PlayedStep& played) {
  const std::optional<LinkId> broken = played.what().run.broken;
  const std::optional<FatalFault> fatal =
      broken ? faults_.cause_of(*broken, step_, now_) : faults_.kill(step_, played.start(), kNever);
  ensure(fatal.has_value(), "a step is cut short by a fault");
  FailureReport& failure = failures_.emplace_back();
  failure.set_time_s(to_seconds(now_));
  failure.set_cause(fatal->cause);
  failure.set_lost_steps(0);
  if (fatal->killed) events_.push_back(RankLost{.job = kJob, .rank = fatal->rank});
  if (timeline_) timeline_->instant(now_, fatal->cause);
  over_ = true;
}

void SimBackend::show_slices(const SimulatedStep& step) {
  if (timeline_) timeline_->add(step, step_, now_);
}

void SimBackend::fill(Report& report) {
  if (timeline_) timeline_->close();
  const std::uint64_t simulated = stepper_.simulated();
  const Scenario& scenario = request_.scenario();
  const auto even = even_split(graph_.micro_batches(), graph_.data());
  const double fault_free =
      accounts_.steps() == 0
          ? 0
          : to_seconds(to_nanos(stepper_.step(HardwareState{}, even)->run.duration));
  accounts_.fill(report, last_commit_, fault_free);
  report.set_ranks(graph_.ranks());
  report.set_iterations_simulated(simulated);
  const std::uint64_t at_least_once = std::min(simulated, accounts_.steps());
  report.set_iterations_fast_forwarded(accounts_.steps() - at_least_once);
  report.set_rank_classes(stepper_.most_classes());
  const Step last = step_ > 0 ? step_ - (over_ && failures_.empty() ? 1 : 0) : 0;
  report.set_faults_injected(faults_.begun(last, now_));
  double memory = 0;
  for (std::uint32_t stage = 0; stage < graph_.pipeline(); ++stage) {
    memory = std::max(memory, graph_.memory(stage, even.front()).total().value);
  }
  report.set_memory_per_gpu_bytes(memory);
  for (const FailureReport& failure : failures_) *report.add_failures() = failure;
  if (!scenario.job().has_pace() || graph_.pipeline() > 1 || !circumstances_) return;
  std::vector<double> speeds(graph_.data(), 1.0);
  for (const auto& [rank, slow] : circumstances_->state.slow) {
    double& speed = speeds[rank / graph_.tensor()];
    speed = std::min(speed, 1 / slow);
  }
  report.set_ideal_step_time_s(ideal_makespan(speeds, graph_.micro_batches(),
                                              to_seconds(scenario.job().pace().micro_batch())));
}

}  // namespace orrery
