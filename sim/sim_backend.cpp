#include "sim/sim_backend.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/error.hpp"
#include "sim/job_fit.hpp"
#include "sim/sim_timeline.hpp"
#include "sim/simgrid_engine.hpp"
#include "traces/model.hpp"
#include "traces/scenario.hpp"

namespace orrery {
namespace {

constexpr JobId kJob{0};
/// Some room is left before the policy clock overflows.
constexpr Nanos kLongestRun = 9'000'000'000 * kNanosPerSecond;

/// Of the measured machine, if one is given. A built-in model's ranks are processes of live mode:
/// their gradients travel in its whole numbers, over links as slow as the scenario makes them.
MachineCosts costs_of(const RunRequest& request) {
  const Scenario& scenario = request.scenario();
  MachineCosts costs = machine_costs(request.machine(), scenario.job().layout().data());
  if (scenario.job().model().builtin().empty()) return costs;
  costs.link_limit = scenario.live().link_rate();
  if (summed_in_whole_numbers(scenario)) costs.plain_bytes = sizeof(std::int64_t);
  return costs;
}

}  // namespace

SimBackend::SimBackend(const RunRequest& request, const Cluster& cluster, ProgressSink progress)
    : request_(request),
      cluster_(cluster),
      progress_(std::move(progress)),
      graph_(request_.scenario().job()),
      placement_(place_in_order(graph_, cluster)),
      world_(cluster),
      faults_(request_.scenario(), cluster, placement_),
      stepper_(cluster, graph_, placement_,
               {.full_detail = request_.full_detail(),
                .slices = !request_.timeline().empty(),
                .machine = costs_of(request_)},
               simgrid_engine),
      telemetry_(cluster, graph_, placement_, request_.scenario().noise(),
                 request_.scenario().run().seed()),
      accounts_(cluster, graph_, stepper_.rest()),
      codes_(gradient_parts(graph_.job().model()), gradient_value_bytes(graph_.job())) {
  check_memory(graph_, cluster);
  if (!request_.timeline().empty()) timeline_ = std::make_unique<SimTimeline>(request_.timeline());
}

SimBackend::~SimBackend() = default;

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
  spec.context = graph_.context();
  spec.pipeline = graph_.pipeline();
  spec.data = graph_.data();
  spec.pipeline_last = scenario.job().layout().order() == "pipeline-last";
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
  collectives_.clear();
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
    if (std::holds_alternative<StepDone>(event)) sample_exchange();
  }
  note_losses();
  if (sampled && circumstances_) {
    if ((needs_.signals & kRanks) != 0) telemetry_.ranks(now_, ranks_);
    if ((needs_.signals & kDevices) != 0) telemetry_.devices(now_, devices_);
    if ((needs_.signals & kLinks) != 0) {
      telemetry_.links(now_, stepper_, circumstances_->state, links_);
    }
  }
  return {.now = now_, .epoch = {epoch_}, .sequence = calls_++, .events = events_,
          .devices = devices_, .links = links_, .ranks = ranks_, .collectives = collectives_,
          .cluster = cluster_, .state = world_.state(), .jobs = world_.jobs()};
}

/// The gradient in fp32 and how long summing it took, in whatever code.
void SimBackend::sample_exchange() {
  if ((needs_.signals & kCollectives) == 0 || graph_.data() < 2 || last_exchange_ <= 0) return;
  const double values = parameter_count(graph_.job().model()) / graph_.tensor() / graph_.pipeline();
  collectives_.push_back({.job = kJob,
                          .kind = CollectiveKind::all_reduce,
                          .algorithm = CollectiveAlgorithm::ring,
                          .bytes = sizeof(float) * values,
                          .ranks = graph_.data(),
                          .duration = last_exchange_});
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
  for (const auto& [rank, at] : back_at_) next = std::min(next.value_or(at), at);
  return next;
}

void SimBackend::enter_circumstances() {
  Circumstances now{.state = faults_.state(step_, now_), .per_replica = per_replica(),
                    .collectives = world_.jobs()[kJob.value].collectives,
                    .codecs = world_.jobs()[kJob.value].codecs};
  if (circumstances_ == now) return;
  stepper_.set_collectives(now.collectives);
  stepper_.set_codecs(now.codecs);
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
    if (!open_) readmit();
    if (!open_) enter_circumstances();
    pass_instants(now_);
    if (!events_.empty()) break;
    if (!open_ && now_ >= resume_at_) {
      if (resting() && skip_ahead()) continue;
      open_step();
    }
    now_ = next_stop();
    if (open_ && now_ == open_->end()) close_step();
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
  Nanos stop = open_ ? open_->end() : resume_at_;
  if (!resting()) stop = std::min(stop, next_tick_);
  if (!wakes_.empty()) stop = std::min(stop, *wakes_.begin());
  for (const auto& [at, event] : within_) stop = std::min(stop, at);
  return stop;
}

/// Of each `duration`.
void SimBackend::commit(const SimulatedStep& each, Nanos duration, std::uint64_t count,
                        const std::vector<double>& stretch) {
  accounts_.commit(each, duration, count, per_replica(), stretch);
  if (summed_in_whole_numbers(request_.scenario())) return;  // in no code, as in live mode
  codes_.exchanged(circumstances_->codecs, replicas_there(), count);
}

/// How many share their gradients; counted anew when the membership has changed.
std::uint32_t SimBackend::replicas_there() {
  if (std::exchange(counted_in_, epoch_) == epoch_) return replicas_;
  const JobInfo& job = world_.jobs()[kJob.value];
  std::set<std::uint32_t> lost;
  for (std::uint32_t rank = 0; rank < job.ranks.size(); ++rank) {
    if (job.ranks[rank] == Health::lost) lost.insert(job.spec.replica_of({rank}));
  }
  return replicas_ = graph_.data() - static_cast<std::uint32_t>(lost.size());
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
    if (count > 0) commit(each, plain, count, {});
    now_ += plain * static_cast<Nanos>(count);
    return count;
  }
  std::uint64_t count = 0;
  for (; step_ + count < boundary; ++count) {
    const std::vector<double> stretch = telemetry_.stretch(step_ + count, graph_.data());
    const Nanos duration = length_of(each, stretch);
    if (duration > limit - now_) break;
    commit(each, duration, 1, stretch);
    now_ += duration;
    *last = duration;
  }
  return count;
}

bool SimBackend::skip_ahead() {
  const bool resumed = failures_.empty() || failures_.back().report.has_resumed_s();
  if (request_.full_detail() || !resumed || faults_.kill(step_, now_, now_ + 1)) return false;
  const std::uint64_t simulated = stepper_.simulated();
  const auto each = stepper_.step(circumstances_->state, per_replica());
  if (stepper_.simulated() > simulated) show_slices(*each);
  if (each->run.cut_short) return false;
  Nanos last = 0;
  const std::uint64_t count =
      steps_until(next_boundary(), *each, next_interruption().value_or(kNever), &last);
  if (count == 0) return false;
  step_ += count - 1;
  const std::vector<double> stretch = telemetry_.stretch(step_, graph_.data());
  last_exchange_ = parts_of(*each, to_seconds(last), stretch).exchange;
  telemetry_.begin_step(
      PlayedStep(step_, now_ - last, each, stretch));
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
  commit(played.what(), played.duration(), 1, played.stretch());
  last_exchange_ =
      parts_of(played.what(), to_seconds(played.duration()), played.stretch()).exchange;
  // A resting policy is told of the last step before something may differ.
  const bool tell = !resting() || step_ + 1 >= next_boundary() || !held_.empty();
  step_done(played.duration(), tell);
  watched_ = watched_ || tell;
}

/// Step `step_` is committed at `now_`.
void SimBackend::step_done(Nanos duration, bool tell) {
  last_commit_ = now_;
  for (Loss& failure : failures_) {
    if (!failure.report.has_resumed_s()) failure.report.set_resumed_s(to_seconds(now_));
  }
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
  codes_.fill(report);
  report.set_ranks(graph_.ranks());
  report.set_iterations_simulated(simulated);
  const std::uint64_t at_least_once = std::min(simulated, accounts_.steps());
  report.set_iterations_fast_forwarded(accounts_.steps() - at_least_once);
  report.set_rank_classes(stepper_.most_classes());
  const Step last = step_ > 0 ? step_ - (step_ == scenario.run().steps() ? 1 : 0) : 0;
  report.set_faults_injected(faults_.begun(last, now_));
  double memory = 0;
  for (std::uint32_t stage = 0; stage < graph_.pipeline(); ++stage) {
    memory = std::max(memory, graph_.memory(stage, even.front()).total().value);
  }
  report.set_memory_per_gpu_bytes(memory);
  for (const Loss& failure : failures_) *report.add_failures() = failure.report;
  if (!scenario.job().has_pace() || graph_.pipeline() > 1 || !circumstances_) return;
  std::vector<double> speeds(graph_.data(), 1.0);
  for (const auto& [rank, slow] : circumstances_->state.slow) {
    double& speed = speeds[graph_.position({rank}).replica];
    speed = std::min(speed, 1 / slow);
  }
  report.set_ideal_step_time_s(ideal_makespan(speeds, graph_.micro_batches(),
                                              to_seconds(scenario.job().pace().micro_batch())));
}

}  // namespace orrery
