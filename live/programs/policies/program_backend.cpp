#include "live/programs/policies/program_backend.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "core/error.hpp"
#include "live/group/messages.hpp"
#include "policies/seam/job_lifecycle.hpp"

namespace orrery::live {
namespace {

constexpr int kWait_ms = 50;
/// Longest wait for ranks that reach their first step later than others, or never.
constexpr double kFirstStep_s = 60;
/// Longest wait for an approval after the last rank has ended: HandOver's patience, and a second.
constexpr Nanos kApproval = 61 * kNanosPerSecond;
constexpr const char* kBare =
    "the ranks load NCCL without PyTorch (as JAX and TensorFlow do): policies see its collectives "
    "and may set their table before the first communicator; nothing else of the program is "
    "attached";
/// A step that takes longer than this times the previous one is not as before (PolicyTicks).
constexpr double kSlower = 1.25;

std::vector<std::size_t> all_ranks(std::size_t count) {
  std::vector<std::size_t> ranks(count);
  for (std::size_t rank = 0; rank < count; ++rank) ranks[rank] = rank;
  return ranks;
}

/// Returns kind and text of the plan of decided codes or shares.
std::pair<std::string, std::string> plan_of(
    const Setting& what, const std::vector<std::pair<std::size_t, bool>>& ranks) {
  if (const auto* codes = std::get_if<CodecRules>(&what)) return {"codecs", codec_text(*codes)};
  return {"shares", share_text(std::get<Shares>(what).per_replica, ranks)};
}

/// Returns true if a rank has loaded NCCL and no rank has a group of PyTorch, which would be
/// attached before its NCCL.
bool loads_bare_nccl(ProgramCollectives* collectives, const ProgramRun& run) {
  if (collectives == nullptr || run.run_book().attached() > 0) return false;
  collectives->read_reports();
  return !collectives->loaded_ranks().empty();
}

/// Returns the number of steps of a rank that has sent `ready`, which it repeats at a takeover.
std::uint64_t begun_step(const ProgramAttempts& attempts, std::size_t rank, const Fields& ready) {
  const std::uint64_t step = std::stoull(ready.at(1));
  if (!attempts.is_taken_over() || attempts.current() == nullptr) return step;
  return std::max(step, attempts.current()->run_book().steps_of(rank));
}

/// Brings job, gate and clock to the end of the calls before a takeover.
void restore_past(Past& past, ProgramJob& job, DecisionGate& gate, PolicyClock& clock) {
  job.set_world(past.world());
  clock = PolicyClock(Clock::now().time_since_epoch() / std::chrono::nanoseconds(1) - past.now());
  clock.start();
  for (const Nanos at : past.wake_times()) gate.wake(at);
  for (const auto& [id, step] : past.effects()) gate.expect_effect(id, step);
}

}  // namespace

ProgramBackend::ProgramBackend(ProgramAttempts& attempts, const Cluster& cluster, Options options)
    : attempts_(attempts),
      cluster_(cluster),
      options_(std::move(options)),
      job_(cluster, [this] { return clock_.now(); }),
      gate_(job_.world(),
            {Kinds<Action>::all(),
             Kinds<Setting>::of<Shares, CheckpointPlan, CodecRules, Prefetch, CollectiveTable>()},
            *this, true),
      plans_([this](std::size_t rank, const Fields& fields) {
        if (attempts_.current() != nullptr) attempts_.current()->send_message(rank, fields);
      }) {}

// ---- start --------------------------------------------------------------------------------

bool ProgramBackend::await_first_step() {
  if (options_.collectives != nullptr) options_.collectives->begin_attempt();
  attempts_.start(&news_);
  double first_s = 0;
  while (attempts_.advance_run(kWait_ms)) {
    for (const ProgramNews::Item& item : news_.drain_items()) {
      const bool is_ready = item.kind == ProgramNews::Item::Kind::message &&
                            kind_of(item.fields) == MessageKind::ready;
      if (!is_ready) continue;
      if (ready_.empty()) first_s = monotonic_s();
      ready_[item.rank] = item.fields;
    }
    const std::string& reason = attempts_.current()->run_book().plain_reason();
    if (!reason.empty()) {
      end_program();
      throw Error(ErrorKind::environment,
                  fmt::format("policies need the fault-tolerant process group, which is not "
                              "attached: {}; run the program without policies, or remedy the cause",
                              reason));
    }
    if (ready_.empty() && loads_bare_nccl(options_.collectives, *attempts_.current())) {
      features_ = bare_features(options_.no_table);
      attempts_.print_line(kBare);
      return true;
    }
    if (ready_.empty()) continue;
    const auto members = attempts_.current()->run_book().members();
    const bool all = std::all_of(members.begin(), members.end(),
                                 [this](std::size_t rank) { return ready_.count(rank) > 0; });
    if (!all && monotonic_s() - first_s < kFirstStep_s) continue;
    features_ = features_of(ready_.begin()->second);
    for (const auto& [rank, fields] : ready_) {
      features_ = common_features(features_, features_of(fields));
    }
    return true;
  }
  return false;
}

void ProgramBackend::end_program() {
  if (attempts_.current() == nullptr) return;
  attempts_.current()->end_run();
  while (attempts_.advance_run(kWait_ms)) {}
  stage_ = Stage::over;
}

void ProgramBackend::begin(const Needs& needs) {
  // Batches stay as the program makes them unless a policy sets shares.
  if (!needs.settings.has<Shares>()) features_.share = 0;
  clock_.start();
  ticks_.begin(needs.tick, 0);
  if (options_.past != nullptr) {
    stage_ = Stage::repeating;
    return;
  }
  stage_ = Stage::starting;
  std::uint64_t from = 0;
  for (const auto& [rank, fields] : ready_) {
    from = std::max(from, begun_step(attempts_, rank, fields));
  }
  const auto ranks = static_cast<std::uint32_t>(attempts_.ranks());
  job_.submit_job(program_job(options_.name, ranks, features_), from);
  job_.lose_ranks(attempts_.current()->run_book().missing_ranks());
  if (options_.begins_alone) begin_ranks();
}

/// Lets all ranks that wait in their first step continue.
void ProgramBackend::begin_ranks() {
  for (const auto& [rank, fields] : ready_) {
    const std::uint64_t step = begun_step(attempts_, rank, fields);
    progress_.set_begin(rank, step);
    plans_.begin_rank(rank, step);
  }
  ready_.clear();
  if (features_.is_bare) options_.collectives->write_common_table(nullptr);
  stage_ = Stage::training;
  pace_.began = clock_.now();
}

// ---- observations -------------------------------------------------------------------------

std::optional<Observation> ProgramBackend::next() {
  if (stage_ == Stage::repeating) {
    if (auto seen = options_.past->next()) return seen;
    restore_past(*options_.past, job_, gate_, clock_);
    counts_.calls = options_.past->calls();
    begin_ranks();
    job_.lose_ranks(attempts_.current()->run_book().missing_ranks());
    job_.world().begin_batch();
    gate_.resume_decisions(options_.past->open(), clock_.now());
    emit_event(Tick{});
    // Perhaps only some ranks have heard of a change at the death of `orrery run`.
    align_shares();
    const auto codes = job_.job().now.get<CodecRules>();
    if (features_.no_codes.empty() && !codes.empty()) {
      plans_.propose_soon("codecs", codec_text(codes), training_ranks());
    }
  }
  while (!job_.has_events()) {
    if (stage_ == Stage::over) return {};
    const Nanos next = std::min(ticks_.next(), gate_.next_wake());
    const Nanos left = std::clamp<Nanos>(next - clock_.now(), 0, kWait_ms * 1'000'000);
    advance_run(static_cast<int>((left + 999'999) / 1'000'000));
    const Nanos now = clock_.now();
    const bool as_before =
        static_cast<double>(now - pace_.began) <= kSlower * static_cast<double>(pace_.took);
    const bool ticks = ticks_.is_due(now, stage_ != Stage::training, as_before);
    if (stage_ != Stage::over && (gate_.pop_due_wakes(now) || ticks)) emit_event(Tick{});
  }
  samples_.begin(monotonic_s(), job_.ranks(),
                 job_.is_alive() ? job_.job().now.get<Prefetch>() : Prefetch{});
  if (options_.collectives != nullptr && job_.is_alive()) {
    options_.collectives->read_reports();
    const Step step = std::max<Step>(job_.job().step, 1) - 1;
    samples_.add_collectives(options_.collectives->drain_samples(step));
  }
  shown_ = job_.drain_events();
  return Observation{.now = clock_.now(),
                     .sequence = counts_.calls++,
                     .events = shown_,
                     .cluster = cluster_,
                     .state = job_.world().state(),
                     .jobs = job_.world().jobs(),
                     .samples = samples_};
}

bool ProgramBackend::attend_ranks() {
  ProgramRun* const run = attempts_.current();
  return run == nullptr || !run->advance_run(0);
}

TrainingRanks ProgramBackend::training_ranks() const {
  TrainingRanks ranks;
  const ProgramRun* const run = attempts_.current();
  if (run == nullptr || stage_ != Stage::training) return ranks;
  for (const auto& [rank, lives] : job_.ranks()) {
    const bool is_member =
        lives && !run->run_book().has_ended(rank) && !run->run_book().has_left(rank);
    if (is_member) ranks.members.push_back(rank);
  }
  ranks.most_steps = progress_.most_steps(ranks.members);
  return ranks;
}

void ProgramBackend::advance_run(int wait_ms) {
  if (stage_ == Stage::held) {
    const bool is_open = options_.waits_for_answers && clock_.now() < held_until_;
    if (!is_open && gate_.next_wake() == kNever) return end_job(Ending::failed);
    std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
    if (is_open) emit_event(Tick{});
    return;
  }
  const bool runs = attempts_.advance_run(wait_ms);
  handle_news();
  if (!runs) return end_attempt();
  if (stage_ != Stage::training) return;
  settle_plans();
  if (options_.drain_parameters) {
    for (ParameterSet& set : options_.drain_parameters()) emit_event(std::move(set));
  }
  const Nanos silence = suspicion_time(to_nanos(attempts_.heartbeat_limit_s()));
  job_.suspect_ranks(
      attempts_.current()->run_book().silent_ranks(monotonic_s(), to_seconds(silence)));
  const JobInfo& job = job_.job();
  const bool is_replaced = job.next && !job.is_restarting;
  if (is_replaced && !attempts_.current()->can_replace()) {  // the limit is reached: without them
    job_.start_job(training_ranks().members, job.step);
  }
}

void ProgramBackend::handle_news() {
  std::vector<std::size_t> lost, joined;
  for (const ProgramNews::Item& item : news_.drain_items()) {
    switch (item.kind) {
      case ProgramNews::Item::Kind::message: handle_message(item.rank, item.fields); break;
      case ProgramNews::Item::Kind::loss: lost.push_back(item.rank); break;
      case ProgramNews::Item::Kind::joined:
        progress_.set_begin(item.rank, item.step);
        joined.push_back(item.rank);
        break;
    }
  }
  if (attempts_.current() == nullptr) return;
  const bool has_job = stage_ == Stage::training || stage_ == Stage::starting;
  if (has_job && !(lost.empty() && joined.empty())) change_members(lost, joined);
  if (stage_ != Stage::training) return;
  const TrainingRanks ranks = training_ranks();
  const std::uint64_t done = progress_.completed_steps(ranks.members);
  const Step before = job_.job().step;
  if (done <= before || job_.job().phase != JobPhase::running) return;
  job_.complete_steps(done, progress_.drain_duration_s(before, done));
  pace_.took = (clock_.now() - pace_.began) / static_cast<Nanos>(done - before);
  pace_.began = clock_.now();
  is_between_ = true;
  gate_.settle_deferred(ProgramJob::kJob, clock_.now());
  is_between_ = false;
}

void ProgramBackend::handle_message(std::size_t rank, const Fields& fields) {
  const std::optional<MessageKind> kind = kind_of(fields);
  if (kind == MessageKind::ready) {
    ready_[rank] = fields;
    if (stage_ == Stage::training) begin_ranks();
    if (stage_ != Stage::restarting || attempts_.current() == nullptr) return;
    const auto members = attempts_.current()->run_book().members();
    if (ready_.size() < members.size()) return;
    job_.start_job(all_ranks(attempts_.ranks()), std::stoull(fields.at(1)));
    begin_ranks();
    align_shares();
  } else if (kind == MessageKind::done) {
    RankStep step = rank_step_of(fields);
    if (features_.share == 0) step.share = 1;
    progress_.record_step(rank, step);
  } else if (kind == MessageKind::snapshot || kind == MessageKind::unsaved) {
    // All ranks write; the first of them completes the snapshot.
    const TrainingRanks ranks = training_ranks();
    if (ranks.members.empty() || rank != ranks.members.front()) return;
    job_.record_save(std::stoull(fields.at(1)), std::stod(fields.at(2)),
                     kind == MessageKind::snapshot);
  } else {
    plans_.handle_message(rank, fields);
  }
}

/// Shows losses and new processes, and lets the ranks agree anew on open plans.
void ProgramBackend::change_members(const std::vector<std::size_t>& lost,
                                    const std::vector<std::size_t>& joined) {
  for (const Decision& decision : plans_.withdraw_all()) gate_.expire_decision(decision);
  gate_.expire_settings(ProgramJob::kJob);
  job_.lose_ranks(lost);
  if (!joined.empty()) {
    const RunBook& book = attempts_.current()->run_book();
    const JobInfo& job = job_.job();
    const std::vector<GpuId> wanted = (job.next ? job.next->gpus : job.gpus).to_vector();
    std::vector<std::size_t> ranks;
    for (const GpuId gpu : wanted) ranks.push_back(gpu.value);
    const bool complete = std::none_of(ranks.begin(), ranks.end(),
                                       [&book](std::size_t rank) { return book.is_lost(rank); });
    if (complete) job_.start_job(ranks, std::max(job.step, progress_.most_steps(joined)));
  }
  align_shares();
}

// ---- decisions ----------------------------------------------------------------------------

void ProgramBackend::apply(const DecisionList& decisions) {
  if (stage_ == Stage::repeating) return options_.past->check_decisions(decisions);
  ticks_.set_resting(decisions.is_resting());
  job_.world().begin_batch();
  if (!job_.is_alive()) return;
  gate_.accept_decisions(decisions, clock_.now());
  settle_plans();
  if (stage_ != Stage::starting) return;
  begin_ranks();
  if (attempts_.is_taken_over()) align_shares();
  settle_plans();  // proposes those of later steps
}

std::string ProgramBackend::refusal(const Decision& decision) const {
  const TrainingRanks ranks = training_ranks();
  return program_refusal(
      features_,
      {.ranks = attempts_.ranks(),
       .members = ranks.members,
       .can_restart = attempts_.can_restart(),
       .has_table = options_.collectives != nullptr && options_.collectives->has_common_table(),
       .replacements_left = attempts_.replacements_left()},
      job_.job(), decision);
}

void ProgramBackend::emit_event(Event event) {
  const auto* decided = std::get_if<Decided>(&event);
  if (decided != nullptr && decided->status == Outcome::applied) ++counts_.applied;
  job_.emit_event(std::move(event));
}

void ProgramBackend::carry_out(const Decision& decision) {
  if (const auto* assign = std::get_if<Assign>(&decision.what)) return carry_assignment(*assign);
  if (std::holds_alternative<Save>(decision.what)) {
    job_.set_tier(std::get<Save>(decision.what).tier);
    return plans_.propose_soon("save", "save", training_ranks());
  }
  const Setting& what = std::get<Configure>(decision.what).what;
  if (const auto* plan = std::get_if<CheckpointPlan>(&what)) {
    job_.set_tier(plan->tier);
    plans_.propose_soon("every", fmt::format("every {}", plan->every_steps), training_ranks());
  } else if (const auto* prefetch = std::get_if<Prefetch>(&what)) {
    plans_.propose_soon("prefetch", prefetch_text(*prefetch), training_ranks());
  } else if (const auto* table = std::get_if<CollectiveTable>(&what); table && features_.is_bare) {
    options_.collectives->write_common_table(table);
  } else if (agreed_ != 0) {
    plans_.commit_plan(agreed_);
  } else if (const auto* codes = std::get_if<CodecRules>(&what)) {
    plans_.propose_soon("codecs", codec_text(*codes), training_ranks());
  } else if (const auto* rules = std::get_if<CollectiveTable>(&what)) {
    plans_.propose_soon("table", options_.collectives->write_plan(*rules), training_ranks());
  }
}

/// Proposes decided shares, codes and tables, and finishes the decisions that the ranks have
/// answered. Before the ranks begin, those of the next step need no answer. Ranks without PyTorch
/// give none: they read a table before their first call.
void ProgramBackend::settle_plans() {
  const TrainingRanks ranks = training_ranks();
  for (const Decision& decision : gate_.drain_unagreed()) {
    const Setting& what = std::get<Configure>(decision.what).what;
    if (features_.is_bare) {
      gate_.apply_agreed(decision, clock_.now());
      continue;
    }
    const auto* table = std::get_if<CollectiveTable>(&what);
    const auto [kind, text] =
        table != nullptr
            ? std::pair<std::string, std::string>("table", options_.collectives->write_plan(*table))
            : plan_of(what, job_.ranks());
    const Step next = job_.job().step + 1;
    if (stage_ == Stage::starting && decision.at_step <= next) {
      plans_.set_decision(decision, kind, text, next);
    } else {
      plans_.propose_decision(decision, kind, text, ranks);
    }
  }
  for (const ProgramPlans::Answered& answered : plans_.settle_answers(ranks)) {
    if (!answered.is_accepted) {
      emit_event(Decided{answered.decision.id, Outcome::rejected,
                         fmt::format("step {} has begun at a rank", answered.late_step)});
      continue;
    }
    agreed_ = answered.number;
    is_between_ = true;  // the ranks know the step, so the decision need not wait for one
    gate_.apply_agreed(answered.decision, clock_.now());
    is_between_ = false;
    agreed_ = 0;
    plans_.withdraw_plan(answered.number);  // no effect on one that is committed
  }
}

/// Brings the shares of the ranks to those of the job, after a change of its ranks.
void ProgramBackend::align_shares() {
  if (features_.share == 0 || stage_ != Stage::training) return;
  plans_.propose_soon("shares", share_text(job_.job().shares(), job_.ranks()), training_ranks());
}

void ProgramBackend::carry_assignment(const Assign& assign) {
  if (job_.job().is_restarting || stage_ == Stage::held) {
    if (job_.job().phase != JobPhase::held) emit_event(JobHeld{ProgramJob::kJob});
    if (attempts_.current() != nullptr) return attempts_.current()->end_run();
    return end_attempt();
  }
  const TrainingRanks ranks = training_ranks();
  std::vector<std::size_t> target;
  for (const GpuId gpu : assign.gpus) target.push_back(gpu.value);
  if (target == ranks.members) {
    job_.start_job(target, job_.job().step);
    return align_shares();
  }
  for (const std::size_t rank : target) {
    const bool is_member = std::binary_search(ranks.members.begin(), ranks.members.end(), rank);
    if (!is_member) attempts_.current()->order_replacement(rank);
  }
}

// ---- ends ---------------------------------------------------------------------------------

/// Starts the ranks again if a decision or the rules of the run say so; otherwise holds the job,
/// or ends it.
void ProgramBackend::end_attempt() {
  const ProgramOutcome& outcome = attempts_.outcomes().back();
  const bool is_ordered = job_.job().is_restarting;
  if (outcome.signal != 0) return end_job(Ending::cancelled);
  const bool was_ended = is_ordered && stage_ != Stage::restarting;
  if (!was_ended && !wants_restart(outcome)) return end_job(Ending::completed);
  for (const Decision& decision : plans_.withdraw_all()) gate_.expire_decision(decision);
  if (!is_ordered) {
    gate_.expire_settings(ProgramJob::kJob);
    job_.lose_ranks(all_ranks(attempts_.ranks()));
    emit_event(JobHeld{ProgramJob::kJob});
  }
  progress_.clear();
  ready_.clear();
  const bool starts = (is_ordered || options_.restarts_alone) && attempts_.can_restart();
  if (!starts) {
    stage_ = Stage::held;
    held_until_ = clock_.now() + kApproval;
    return;
  }
  stage_ = Stage::restarting;
  attempts_.print_line("all ranks start again");
  if (options_.collectives != nullptr) options_.collectives->begin_attempt();
  attempts_.start(&news_);
}

void ProgramBackend::end_job(Ending how) {
  gate_.close("the program has ended");
  job_.end_job(how);
  stage_ = Stage::over;
}

}  // namespace orrery::live
