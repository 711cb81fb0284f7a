#include "sim/training_run.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/error.hpp"
#include "policies/seam/fabric_rules.hpp"
#include "sim/gradient_codes.hpp"
#include "sim/job_fit.hpp"
#include "sim/simgrid_engine.hpp"
#include "traces/model.hpp"
#include "traces/scenario.hpp"
#include "traces/stacks.hpp"

namespace orrery {
namespace {

/// Some room is left before the policy clock overflows.
constexpr Nanos kLongestRun = 9'000'000'000 * kNanosPerSecond;
/// Standings whose steps are remembered.
constexpr std::size_t kMostFits = 8;

/// Of the measured machine, if one is given. A built-in model's ranks are processes of live mode:
/// their gradients travel in its whole numbers, over links as slow as the scenario makes them.
MachineCosts costs_of(const RunRequest& request) {
  const Scenario& scenario = request.scenario();
  MachineCosts costs = machine_costs(request.machine(), scenario.job().layout().data());
  if (scenario.job().model().builtin().empty()) return costs;
  costs.link_limit = scenario.live().link_rate();
  if (reproducible_sums(scenario)) costs.plain_bytes = sizeof(std::int64_t);
  return costs;
}

/// The one engine that SimGrid allows a process, for whatever standing comes first and all that
/// need no more.
EngineFactory shared_engine() {
  return [engine = std::shared_ptr<Engine>()](std::uint32_t hosts, std::uint32_t links) mutable {
    if (engine == nullptr) engine = simgrid_engine(hosts, links);
    if (engine->hosts() >= hosts && engine->links() >= links) return engine;
    throw Error(ErrorKind::bad_input,
                fmt::format("a job that grows beyond the {} workers that it began with cannot be "
                            "simulated", engine->hosts()));
  };
}

std::vector<std::uint32_t> numbered(std::size_t ranks) {
  std::vector<std::uint32_t> all(ranks);
  for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}

}  // namespace

TrainingRun::TrainingRun(const RunRequest& request, const Cluster& cluster, const World& world,
                         DecisionGate& gate, Happen happen, ProgressSink progress)
    : request_(request),
      cluster_(cluster),
      world_(world),
      gate_(gate),
      happen_(std::move(happen)),
      progress_(std::move(progress)),
      engine_(shared_engine()),
      options_{.full_detail = request.full_detail(),
               .slices = !request.timeline().empty(),
               .machine = costs_of(request)},
      home_(place_in_order(StepGraph(request.scenario().job()), cluster)),
      begun_(std::make_shared<FittedJob>(scenario(), cluster, home(), numbered(home_.size()), home_,
                                         options_, engine_)),
      fit_(begun_),
      faults_(scenario(), cluster, home_),
      accounts_(cluster, fit_->graph(), fit_->stepper().rest()),
      codes_(gradient_parts(scenario().job().model()), gradient_value_bytes(scenario().job())) {
  if (scenario().run().memory() != "warn") check_memory(fit_->graph(), cluster);
  if (!request_.timeline().empty()) timeline_ = std::make_unique<SimTimeline>(request_.timeline());
}

TrainingRun::~TrainingRun() = default;

Standing TrainingRun::home() const {
  const ::orrery::Layout& said = scenario().job().layout();
  return {.gpus = home_,
          .layout = {.tensor = said.tensor(), .context = said.context(),
                     .pipeline = said.pipeline(), .data = said.data(),
                     .pipeline_last = said.order() == "pipeline-last"}};
}

JobSpec TrainingRun::spec(const Needs& needs) const {
  const StepGraph& graph = begun_->graph();
  const Standing where = home();
  JobSpec spec;
  spec.id = kJob;
  spec.name = scenario().name();
  spec.gpus = graph.ranks();
  spec.layout = where.layout;
  spec.least_gpus = where.layout.ranks_per_replica();
  const std::uint32_t whole = cluster_.gpus() / spec.least_gpus * spec.least_gpus;
  spec.most_gpus = scenario().elastic() ? whole : spec.gpus;
  spec.micro_batches = graph.micro_batches();
  const double even = static_cast<double>(graph.micro_batches()) / graph.data();
  spec.max_micro_batches = static_cast<std::uint32_t>(
      std::max(std::ceil(even), std::floor(even * scenario().job().max_share())));
  spec.steps = scenario().run().steps();
  spec.nominal_micro_batch_time = to_nanos(begun_->stepper().nominal_micro_batch_time());
  spec.can = settable(scenario());
  spec.settings = {loss_response(scenario(), needs, request_.mode() != "shadow")};
  if (scenario().live().has_checkpoints()) {
    spec.settings.push_back(
        CheckpointPlan{scenario().live().checkpoints().every(), Tier::local_disk});
  }
  return spec;
}

std::shared_ptr<FittedJob> TrainingRun::fitted(const Standing& where,
                                               std::vector<std::uint32_t> ranks) {
  if (begun_->where() == where) return begun_;
  const auto known = std::find_if(fits_.begin(), fits_.end(),
                                  [&where](const auto& fit) { return fit->where() == where; });
  std::shared_ptr<FittedJob> fit;
  if (known == fits_.end()) {
    fit = std::make_shared<FittedJob>(scenario(), cluster_, where, std::move(ranks), home_,
                                      options_, engine_);
  } else {
    fit = *known;
    fit->renumber(std::move(ranks));
    fits_.erase(known);
  }
  fits_.insert(fits_.begin(), fit);
  if (fits_.size() > kMostFits) {
    simulated_before_ += fits_.back()->stepper().simulated();
    fits_.pop_back();
  }
  return fit;
}

/// On those that work now.
void TrainingRun::refit() {
  auto [where, ranks] = working_part(job());
  if (where.gpus.empty()) return;
  most_classes_ = std::max<std::uint32_t>(
      most_classes_, static_cast<std::uint32_t>(fit_->stepper().most_classes()));
  fit_ = fitted(where, std::move(ranks));
  fit_->telemetry().forget();
  circumstances_.reset();
}

// ---- time -------------------------------------------------------------------------------------

/// A promise to rest holds for what the policy has seen: not before it was shown a whole step
/// under the present circumstances. One that looks at nothing may rest at any time.
bool TrainingRun::rests(const Watch& watch) const {
  return watch.resting && !request_.full_detail() && (watched_ || !watch.reads);
}

/// The first later step at which something may differ, or the end.
Step TrainingRun::next_boundary() const {
  Step boundary = std::min(scenario().run().steps(), gate_.next_effect(kJob, step_));
  if (const auto change = faults_.next_change(step_)) boundary = std::min(boundary, *change);
  const std::uint64_t every = job().now.get<CheckpointPlan>().every_steps;
  if (every > 0) boundary = std::min(boundary, (step_ / every + 1) * every);
  return boundary;
}

Nanos TrainingRun::next_interruption(const Watch& watch) const {
  Nanos next = std::min(watch.limit, gate_.next_wake());
  if (const auto instant = faults_.next_instant(now_ - 1)) next = std::min(next, *instant);
  if (transition_) next = std::min(next, transition_->ready);
  for (const auto& [at, event] : later_) next = std::min(next, at);
  return next;
}

void TrainingRun::enter_circumstances() {
  Circumstances now{.state = fit_->local(faults_.state(step_, now_)), .shares = {},
                    .collectives = job().now.get<CollectiveTable>(),
                    .codecs = job().now.get<CodecRules>()};
  const std::vector<bool> lost = lost_replicas(job());
  for (std::size_t replica = 0; replica < lost.size(); ++replica) {
    if (!lost[replica]) now.shares.push_back(job().shares()[replica]);
  }
  if (circumstances_ == now) return;
  fit_->stepper().set_collectives(now.collectives);
  fit_->stepper().set_codecs(now.codecs);
  circumstances_ = std::move(now);
  watched_ = false;
  tell_parts(now_);
}

void TrainingRun::begin(Nanos now, const Watch& watch) {
  now_ = now;
  if (over_ || open_) return;
  if (transition_ && now_ >= transition_->ready && now_ >= resume_at_) come_true();
  if (job().phase != JobPhase::running || now_ < resume_at_ || over_) return;
  enter_circumstances();
  if (rests(watch) && skip_ahead(watch)) return;
  open_step();
}

Nanos TrainingRun::next_stop() const {
  if (over_) return kNever;
  Nanos stop = kNever;
  if (open_) stop = open_->end();
  const bool to_come = transition_ || job().phase == JobPhase::running;
  if (!open_ && now_ < resume_at_ && to_come) stop = resume_at_;
  if (transition_ && (transition_->ready > now_ || !open_)) {
    stop = std::min(stop, std::max(transition_->ready, resume_at_));
  }
  for (const auto& [at, loss] : unknown_) stop = std::min(stop, at);
  for (const auto& [at, event] : later_) stop = std::min(stop, at);
  return stop;
}

void TrainingRun::pass(Nanos now, const Watch& watch) {
  now_ = now;
  if (open_ && now_ == open_->end()) close_step(watch);
  std::vector<Event> due;
  for (const auto& [at, event] : later_) {
    if (at <= now) due.push_back(event);
  }
  std::erase_if(later_, [now](const auto& each) { return each.first <= now; });
  if (saving_ && saving_->at <= now) saving_.reset();
  std::stable_sort(due.begin(), due.end(),
                   [](const Event& a, const Event& b) { return a.index() < b.index(); });
  for (Event& event : due) happen_(std::move(event));
  std::vector<std::size_t> noticed;
  for (const auto& [at, loss] : unknown_) {
    if (at <= now) noticed.push_back(loss);
  }
  std::erase_if(unknown_, [now](const auto& each) { return each.first <= now; });
  if (!noticed.empty()) know_losses(noticed);
}

/// `count` steps of `duration` each.
void TrainingRun::commit(const SimulatedStep& each, Nanos duration, std::uint64_t count,
                         const std::vector<double>& stretch) {
  accounts_.commit(each, duration, count, circumstances_->shares, stretch);
  if (reproducible_sums(scenario())) return;  // in no code, as in live mode
  codes_.exchanged(circumstances_->codecs, fit_->graph().data(), count);
}

/// How many steps like `each` end by `limit` and before `boundary`; their durations are
/// committed, `last` gets that of the last one.
std::uint64_t TrainingRun::steps_until(Step boundary, const SimulatedStep& each, Nanos limit,
                                       Nanos* last) {
  const Nanos plain = length_of(each, {});
  *last = plain;
  if (scenario().noise().compute_cv() == 0) {
    const auto room = static_cast<std::uint64_t>((limit - now_) / std::max<Nanos>(plain, 1));
    const std::uint64_t count = std::min<std::uint64_t>(boundary - step_, room);
    if (count > 0) commit(each, plain, count, {});
    now_ += plain * static_cast<Nanos>(count);
    return count;
  }
  std::uint64_t count = 0;
  for (; step_ + count < boundary; ++count) {
    const std::vector<double> stretch =
        fit_->telemetry().stretch(step_ + count, fit_->graph().data());
    const Nanos duration = length_of(each, stretch);
    if (duration > limit - now_) break;
    commit(each, duration, 1, stretch);
    now_ += duration;
    *last = duration;
  }
  return count;
}

/// Many equal steps at once; afterwards they are told, at the instant that has come.
bool TrainingRun::skip_ahead(const Watch& watch) {
  const bool resumed = losses_.empty() || losses_.back().report.has_resumed_s();
  if (!resumed || save_asked_ || !next_losses(now_, now_ + 1).empty()) return false;
  const std::uint64_t simulated = fit_->stepper().simulated();
  const auto each = fit_->stepper().step(circumstances_->state, circumstances_->shares);
  if (timeline_ && fit_->stepper().simulated() > simulated) timeline_->add(*each, step_, now_);
  if (each->run.cut_short) return false;
  Nanos last = 0;
  const Nanos began = now_;
  const std::uint64_t count =
      steps_until(next_boundary(), *each, next_interruption(watch), &last);
  if (count == 0) return false;
  const Step newest = step_ + count - 1;
  const std::vector<double> stretch = fit_->telemetry().stretch(newest, fit_->graph().data());
  note_exchange(*each, last, stretch);
  exchange_.back().step = newest;
  fit_->telemetry().begin_step(PlayedStep(newest, now_ - last, each, stretch));
  steps_done(count, now_ - began, true);
  return true;
}

/// What changes while a step of `duration` goes on. Nothing comes after a killed rank.
std::vector<Stepper::Change> TrainingRun::changes_within(Nanos duration) const {
  std::vector<Stepper::Change> changes;
  const auto lost = next_losses(now_, now_ + duration);
  for (const Nanos instant :
       faults_.instants(now_ - 1, lost.empty() ? now_ + duration : lost.front().at)) {
    FaultPlan::Touched touched = faults_.touched(instant);
    changes.push_back({.at = to_seconds(instant - now_),
                       .state = fit_->local(faults_.state(step_, instant)),
                       .ranks = fit_->local(touched.ranks),
                       .links = std::move(touched.links)});
  }
  if (!lost.empty()) {
    changes.push_back({.at = to_seconds(lost.front().at - now_),
                       .state = fit_->local(faults_.state(step_, lost.front().at)),
                       .fatal = true});
  }
  return changes;
}

/// Throws bad_input where the policy clock would run out.
Nanos TrainingRun::length_of(const SimulatedStep& step, const std::vector<double>& stretch) const {
  const double seconds =
      step.run.cut_short ? step.run.duration : stretched_duration(step, stretch);
  if (seconds < to_seconds(kLongestRun - now_)) return to_nanos(seconds);
  throw Error(ErrorKind::bad_input,
              fmt::format("run.steps: step {} would end after more than 285 simulated years",
                          step_));
}

/// The step about to begin with what happens during it, which may lengthen it, so that more
/// happens.
std::shared_ptr<const SimulatedStep> TrainingRun::simulate_step(
    const std::vector<double>& stretch) {
  auto what = fit_->stepper().step(circumstances_->state, circumstances_->shares);
  std::size_t known = 0;
  for (;;) {
    const auto changes = changes_within(length_of(*what, stretch));
    if (changes.size() <= known) break;
    known = changes.size();
    what = fit_->stepper().step_with(circumstances_->state, circumstances_->shares, changes);
  }
  // Noise is beyond the simulated step: a rank may be killed in what it adds.
  const auto lost = next_losses(now_, now_ + length_of(*what, stretch));
  if (lost.empty() || what->run.cut_short) return what;
  auto shortened = std::make_shared<SimulatedStep>(*what);
  shortened->run.cut_short = true;
  shortened->run.duration = to_seconds(lost.front().at - now_);
  return shortened;
}

void TrainingRun::open_step() {
  const std::uint64_t simulated = fit_->stepper().simulated();
  std::vector<double> stretch = fit_->telemetry().stretch(step_, fit_->graph().data());
  auto what = simulate_step(stretch);
  if (what->run.cut_short) stretch.clear();
  if (timeline_ && fit_->stepper().simulated() > simulated) timeline_->add(*what, step_, now_);
  saves_ = saves_ || std::exchange(save_asked_, false);
  open_.emplace(step_, now_, std::move(what), std::move(stretch));
  for (const Nanos instant : faults_.instants(now_, open_->end())) tell_parts(instant);
  fit_->telemetry().begin_step(*open_);
}

void TrainingRun::close_step(const Watch& watch) {
  const PlayedStep played = std::move(*open_);
  open_.reset();
  if (played.what().run.cut_short) {
    accounts_.lose(played.duration());
    return cut(played);
  }
  commit(played.what(), played.duration(), 1, played.stretch());
  note_exchange(played.what(), played.duration(), played.stretch());
  // A resting policy is told of the last step before something may differ.
  const bool tell =
      !rests(watch) || step_ + 1 >= next_boundary() || gate_.waits(kJob) || saves_;
  watched_ = watched_ || tell;
  steps_done(1, played.duration(), tell);
}

/// The gradients in fp32 and how long summing them took beyond the computation, in whatever code.
void TrainingRun::note_exchange(const SimulatedStep& step, Nanos duration,
                                const std::vector<double>& stretch) {
  exchange_.clear();
  CollectiveSample sample{.job = kJob, .step = step_, .kind = CollectiveKind::all_reduce,
                          .algorithm = CollectiveAlgorithm::ring,
                          .bytes = sizeof(float) * parameter_count(scenario().job().model()) /
                                   fit_->graph().tensor() / fit_->graph().pipeline(),
                          .ranks = fit_->graph().data(),
                          .exposed = parts_of(step, to_seconds(duration), stretch).exchange};
  double most = -1;
  for (const GroupPlan& group : step.plan.groups) {
    if (group.communicator != Communicator::gradient) continue;
    for (const GroupPlan::Way& way : group.ways) {
      if (way.bytes > most) most = way.bytes, sample.algorithm = way.algorithm;
    }
  }
  exchange_.push_back(sample);
}

/// `count` steps in `duration` are committed at `now_`.
void TrainingRun::steps_done(std::uint64_t count, Nanos duration, bool tell) {
  last_commit_ = now_;
  for (Loss& loss : losses_) {
    if (!loss.report.has_resumed_s()) loss.report.set_resumed_s(to_seconds(now_));
  }
  step_ += count;
  untold_.count += count;
  untold_.duration += duration;
  const Step steps = scenario().run().steps();
  if (tell || step_ == steps) {
    tell_steps();
    gate_.step_ended(kJob, now_);
    save_if_due();
  }
  if (step_ == steps) {
    over_ = true;
    happen_(JobDone{kJob});
    gate_.job_gone(kJob, now_);
  }
  if (!progress_) return;
  Progress progress;
  progress.set_steps_done(step_);
  progress.set_steps(steps);
  progress.set_elapsed_s(to_seconds(now_));
  progress_(progress);
}

void TrainingRun::tell_steps() {
  if (untold_.count == 0) return;
  const auto told = std::exchange(untold_, {});
  happen_(StepsDone{.job = kJob, .last = step_ - 1, .count = told.count,
                    .duration = told.duration});
}

void TrainingRun::save_if_due() {
  const std::uint64_t every = job().now.get<CheckpointPlan>().every_steps;
  const bool due = std::exchange(saves_, false) || (every > 0 && step_ % every == 0);
  if (!due || saving_) return;
  const Checkpoints& costs = scenario().live().checkpoints();
  const Nanos took = costs.stall() + costs.write();
  saving_ = Saving{{.job = kJob, .step = step_, .tier = Tier::local_disk, .stalled = costs.stall(),
                    .took = took},
                   now_ + took};
  later_.emplace_back(saving_->at, saving_->done);
  stand_still_until(now_ + costs.stall());
}

// ---- telemetry and the end ----------------------------------------------------------------

void TrainingRun::ranks(Nanos now, std::vector<RankSample>& out) const {
  if (!circumstances_) return;
  fit_->telemetry().ranks(now, out);
  for (RankSample& sample : out) sample.rank = fit_->rank_of_job(sample.rank.value);
}
void TrainingRun::devices(Nanos now, std::vector<DeviceSample>& out) const {
  if (circumstances_) fit_->telemetry().devices(now, out);
}
void TrainingRun::links(Nanos now, std::vector<LinkSample>& out) const {
  if (circumstances_) fit_->telemetry().links(now, fit_->stepper(), circumstances_->state, out);
}
void TrainingRun::collectives(std::vector<CollectiveSample>& out) const {
  if (fit_->graph().data() < 2) return;
  for (const CollectiveSample& sample : exchange_) {
    if (sample.exposed > 0) out.push_back(sample);
  }
}

void TrainingRun::fill(Report& report, Nanos now) {
  if (timeline_) timeline_->close();
  std::uint64_t simulated = simulated_before_ + begun_->stepper().simulated();
  std::uint64_t classes = std::max<std::uint64_t>(most_classes_, begun_->stepper().most_classes());
  for (const auto& fit : fits_) {
    simulated += fit->stepper().simulated();
    classes = std::max(classes, fit->stepper().most_classes());
  }
  FittedJob& begun = *begun_;
  const auto even = even_split(begun.graph().micro_batches(), begun.graph().data());
  const double fault_free =
      accounts_.steps() == 0
          ? 0
          : to_seconds(to_nanos(begun.stepper().step(HardwareState{}, even)->run.duration));
  accounts_.fill(report, last_commit_, fault_free);
  codes_.fill(report);
  report.set_ranks(begun.graph().ranks());
  const std::string unfitted = unfitted_warning(scenario().job());
  if (!unfitted.empty()) report.add_warnings(unfitted);
  const std::string lack = memory_lack(begun.graph(), cluster_);
  if (!lack.empty()) report.add_warnings(lack.substr(0, lack.find('\n')));
  report.set_iterations_simulated(simulated);
  const std::uint64_t at_least_once = std::min(simulated, accounts_.steps());
  report.set_iterations_fast_forwarded(accounts_.steps() - at_least_once);
  report.set_rank_classes(classes);
  const Step last = step_ > 0 ? step_ - (step_ == scenario().run().steps() ? 1 : 0) : 0;
  report.set_faults_injected(faults_.begun(last, now));
  double memory = 0;
  for (std::uint32_t stage = 0; stage < begun.graph().pipeline(); ++stage) {
    memory = std::max(memory, begun.graph().memory(stage, even.front()).total().value);
  }
  report.set_memory_per_gpu_bytes(memory);
  for (const Loss& loss : losses_) *report.add_failures() = loss.report;
  if (!scenario().job().has_pace() || begun.graph().pipeline() > 1 || !circumstances_) return;
  std::vector<double> speeds(fit_->graph().data(), 1.0);
  for (const auto& [rank, slow] : circumstances_->state.slow) {
    double& speed = speeds[fit_->graph().position({rank}).replica];
    speed = std::min(speed, 1 / slow);
  }
  report.set_ideal_step_time_s(ideal_makespan(speeds, begun.graph().micro_batches(),
                                              to_seconds(scenario().job().pace().micro_batch())));
}

}  // namespace orrery
