// Random sequences of records: the state that the controller holds, the state that a successor
// reads from the file, and the state of the records applied one after the other are equal, and so
// are their worlds and the statuses for the operator.
//   ORRERY_SEED=N  other sequences
#include "live/run/files/run_state.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/random.hpp"
#include "live/run/files/journal.hpp"
#include "live/run/operator/run_status.hpp"
#include "policies/record/encoding.hpp"
#include "tests/traces/sample_cluster.hpp"

namespace orrery::live {
namespace {

std::uint64_t seed() {
  const char* given = std::getenv("ORRERY_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
}

const Cluster kEightGpus = orrery::testing::sample_cluster(1);
const RunRules kRules{.ranks = 4, .keep = 2, .cluster = &kEightGpus};
constexpr JobId kJob{0};

/// Returns the parts of a state that a snapshot lacks as text: decisions without an outcome, and
/// the job while there are some.
std::string open_parts(const RunState& state) {
  std::string text;
  for (const auto& [id, gpus] : state.open_assignments) text += fmt::format("{}: {}; ", id, gpus);
  if (state.at_end) text += fmt::format("{} at the end; ", state.at_end->working);
  if (!state.world) return text;
  text += fmt::format("version {}", state.world->state().version);
  for (const JobInfo& job : state.world->jobs()) {
    text += fmt::format(", step {} epoch {} phase {} GPUs {} next {} lost {} batch {}", job.step,
                        job.epoch.value, static_cast<int>(job.phase), job.gpus.size(),
                        job.next ? job.next->gpus.size() : 99, job.lost.size(),
                        job.micro_batches());
  }
  return text;
}

/// Returns a state and its status as text, for comparisons and messages. The state contains the
/// statistics, the checkpoints, the hold, the wake-up times, the wanted ranks and, while no
/// decision is open, the whole world.
std::string text_of(const RunState& state) {
  JournalSnapshot all;
  save_state(state, all);
  const RunStatus status = status_of(state, {});
  return fmt::format(
      "{} {} {} {}; status {} step {} epoch {} losses {} samples {} loss {} elapsed {} step time "
      "{} checkpoints {} + {}",
      all.ShortDebugString(), open_parts(state), state.parameters_sha256, state.empty,
      status.phase, status.step, status.epoch, status.losses, status.samples, status.loss,
      status.elapsed_s, status.step_time_s, status.checkpoints_written, status.checkpoints_failed);
}

/// Fills a commit of the next step: times and losses of three of four ranks, and often a
/// checkpoint.
void fill_commit(Rng& rng, const RunState& state, JournalCommit& commit) {
  commit.set_step(state.core.committed);
  commit.set_epoch(state.core.epoch);
  commit.set_lost(state.work.lost + rng.below(8));
  commit.set_at(state.statistics.last_commit() + 1 + static_cast<Nanos>(rng.below(1'000'000'000)));
  commit.set_samples(4 + rng.below(2));
  for (int rank = 0; rank < 3; ++rank) {
    commit.add_cpu(static_cast<Nanos>(rng.below(8)));
    StepReport& report = *commit.add_reports();
    report.set_compute(static_cast<Nanos>(rng.below(500'000'000)));
    report.set_duration(600'000'000);
    report.set_loss_sum(1 + rng.uniform());
    report.set_predictions(1 + rng.below(8));
  }
  if (rng.below(2) == 0) return;
  commit.set_checkpoint(1 + rng.below(1'000'000'000));
  commit.set_tier(static_cast<TierRecord>(rng.below(4)));
}

/// Decisions of a random run: the next id, and the ids without an outcome.
struct Decisions {
  DecisionId next = 0;
  std::vector<DecisionId> open = {};
};

/// Fills the events with which a job of four ranks arrives and starts.
void fill_start(ObservationRecord& seen) {
  JobSpec spec;
  spec.id = kJob;
  spec.gpus = 4;
  spec.layout.data = 4;
  spec.least_gpus = 1;
  spec.most_gpus = 8;
  spec.micro_batches = 16;
  spec.can = Kinds<Setting>::all();
  encode(Event{JobSubmitted{spec}}, *seen.add_events());
  encode(Event{JobStarted{.job = kJob,
                          .epoch = {1},
                          .from = 0,
                          .where = {GpuRuns::range({0}, 4), spec.layout}}},
         *seen.add_events());
}

/// Returns the outcome of a begun checkpoint attempt, where there is one.
EventRecord random_save(Rng& rng, const RunState& state) {
  EventRecord event;
  SaveDoneRecord& done = *event.mutable_save_done();
  done.set_durable(rng.below(3) > 0);
  const auto& begun = state.checkpoints.begun();
  if (begun.empty()) return event;
  const std::uint64_t index = rng.below(static_cast<std::uint64_t>(begun.size()));
  const KeptCheckpoint& some = begun.Get(static_cast<int>(index));
  done.set_step(some.step());
  done.set_tier(some.tier());
  return event;
}

/// Returns a random event of the job or of a part, which may be impossible.
EventRecord random_event(Rng& rng, const RunState& state, const World& world) {
  const JobInfo& job = world.jobs()[kJob];
  const Epoch later{job.epoch.value + 1};
  const auto some = [&rng] { return static_cast<std::uint32_t>(rng.below(8)); };
  const PartState lost{.health = Health::lost, .rate = 0};
  Event event = Tick{};
  switch (rng.below(10)) {
    case 0: event = JobHeld{kJob}; break;
    case 1: event = JobStopped{kJob, job.step}; break;
    case 2:
    case 3:
      event = JobStarted{.job = kJob,
                         .epoch = later,
                         .from = job.step,
                         .where = job.next ? *job.next : Standing{job.gpus, job.layout}};
      break;
    case 4: event = RanksLost{.job = kJob, .ranks = {RankId{some()}}, .epoch = later}; break;
    case 5:
      event = PartChanged{{PartKind::gpu, some()}, rng.below(3) == 0 ? lost : PartState{}};
      break;
    case 6:
    case 7: {
      const Step last = std::max<Step>(state.core.committed, job.step + 1) - 1;
      event = StepsDone{
          .job = kJob, .last = last, .count = last - job.step + 1, .duration = 5};
      break;
    }
    default: return random_save(rng, state);
  }
  EventRecord record;
  encode(event, record);
  return record;
}

/// Fills an observation with outcomes of open decisions and with a random event, as far as they are
/// possible.
void fill_observation(Rng& rng, const RunState& state, Decisions& decisions,
                      ObservationRecord& seen) {
  seen.set_sequence(state.sequence);
  seen.set_now(std::max<Nanos>(state.now, state.statistics.last_commit()) +
               static_cast<Nanos>(rng.below(100'000'000)));
  World world = *state.world;
  world.begin_batch();
  const auto add = [&](const EventRecord& record) {
    if (!world.objection(decode(record)).empty()) return false;
    world.apply(decode(record), seen.now());
    *seen.add_events() = record;
    return true;
  };
  if (rng.below(3) > 0) {
    for (const DecisionId id : std::exchange(decisions.open, {})) {
      EventRecord applied, rejected;
      encode(Event{Decided{id, Outcome::applied, {}}}, applied);
      encode(Event{Decided{id, Outcome::rejected, "no"}}, rejected);
      if (rng.below(4) == 0 || !add(applied)) add(rejected);
    }
  }
  add(random_event(rng, state, world));
}

/// Fills an answer of the policies: a wake-up time, perhaps past, and often a decision.
void fill_answer(Rng& rng, const RunState& state, Decisions& decisions, JournalRead& read) {
  read.add_wakes(state.now - 1'000'000 + static_cast<Nanos>(rng.below(1'000'000'000)));
  Decision decision;
  switch (rng.below(4)) {
    case 0: {
      Assign where{.job = kJob,
                   .gpus = GpuRuns::range({static_cast<std::uint32_t>(rng.below(5))},
                                          2 + static_cast<std::uint32_t>(rng.below(3))),
                   .layout = {},
                   .state = rng.below(2) == 0 ? StateFrom::peer : StateFrom::none};
      where.layout.data = static_cast<std::uint32_t>(where.gpus.size());
      decision.what = where;
      break;
    }
    case 1:
      decision.what = Configure{kJob, Batch{16 + 4 * static_cast<std::uint32_t>(rng.below(3)), 1}};
      decision.at_step = state.world->jobs()[kJob].step + rng.below(3);
      break;
    case 2: decision.what = Save{kJob, Tier::storage}; break;
    default: return;
  }
  decision.id = decisions.next++;
  decisions.open.push_back(decision.id);
  encode(decision, *read.add_decisions());
}

/// Returns a random record that may follow in a started run.
JournalRecord random_record(Rng& rng, const RunState& state, Decisions& decisions) {
  JournalRecord record;
  const auto some = [&rng] { return static_cast<std::uint32_t>(rng.below(8)); };
  switch (rng.below(16)) {
    case 0:
      record.mutable_membership()->set_epoch(state.core.epoch + 1);
      record.mutable_membership()->set_decided(state.core.decided + some());
      break;
    case 1: {
      record.mutable_seen()->mutable_observation()->set_now(state.now);
      JournalLoss& loss = *record.mutable_seen()->add_losses();
      loss.set_index(static_cast<std::uint32_t>(rng.below(state.losses.size() + 1)));
      loss.set_rank(some());
      break;
    }
    case 2:
      record.mutable_joined()->set_rank(some());
      record.mutable_joined()->set_life(some());
      break;
    case 3: record.mutable_strike()->set_rank(some()); break;
    case 4: record.mutable_removal()->set_node(some()); break;
    case 5: record.set_halted(rng.below(2) == 0); break;
    case 6:
      record.mutable_rolled_back()->set_step(rng.below(state.core.committed + 1));
      record.mutable_rolled_back()->set_attempt(some());
      break;
    case 7:
    case 8:
    case 9:
    case 10:
    case 11:
      fill_observation(rng, state, decisions, *record.mutable_seen()->mutable_observation());
      break;
    case 12: fill_answer(rng, state, decisions, *record.mutable_read()); break;
    default: fill_commit(rng, state, *record.mutable_commit());
  }
  return record;
}

class RunStateTest : public ::testing::Test {
 protected:
  ~RunStateTest() override { std::filesystem::remove(path_); }
  std::string read_back() const {
    return text_of(Journal(path_, "hash", 256, {}, kRules).past());
  }
  const std::string path_ = ::testing::TempDir() + "orrery_state." + std::to_string(getpid());
};

TEST_F(RunStateTest, TheControllersStateIsTheStateOfAllRecords) {
  Rng rng(seed());
  std::size_t rewritten = 0;
  for (int run = 0; run < 20; ++run) {
    SCOPED_TRACE(fmt::format("ORRERY_SEED={}, run {}", seed(), run));
    std::filesystem::remove(path_);
    RunState alone;
    Decisions decisions;
    JournalRecord begin, arrival;
    begin.set_started(77);
    fill_start(*arrival.mutable_seen()->mutable_observation());
    std::optional<Journal> journal(std::in_place, path_, "hash", 256, FileCalls{}, kRules);
    for (int i = 0; i < 300; ++i) {
      const JournalRecord record = i == 0   ? begin
                                   : i == 1 ? arrival
                                            : random_record(rng, alone, decisions);
      ASSERT_EQ(apply(alone, record, kRules), std::nullopt) << record.ShortDebugString();
      // A run begins its journal anew between an answer and the next observation.
      if (journal->is_due() && record.has_seen()) {
        JournalSnapshot snapshot;
        if (save_state(journal->state(), snapshot)) {
          journal->begin_anew(std::move(snapshot));
          ++rewritten;
        }
      }
      ASSERT_TRUE(journal->append_record(record));
      if (rng.below(100) > 0) continue;
      journal.emplace(path_, "hash", 256, FileCalls{}, kRules);  // a takeover
      ASSERT_EQ(text_of(journal->state()), text_of(alone));
    }
    EXPECT_EQ(text_of(journal->state()), text_of(alone));
    journal.reset();
    EXPECT_EQ(read_back(), text_of(alone));
  }
  EXPECT_GT(rewritten, 40u) << "few journals were rewritten";
}

TEST_F(RunStateTest, ARecordThatCannotFollowIsNamed) {
  RunState state;
  JournalRecord record;
  record.mutable_commit()->set_step(1);
  EXPECT_EQ(apply(state, record), "lacks the commit of a step");
  record.mutable_seen()->add_losses()->set_index(1);
  EXPECT_EQ(apply(state, record), "lacks the record of a loss");
  EXPECT_EQ(apply(state, JournalRecord{}), "holds a record of an unknown kind");
  record.mutable_snapshot();
  EXPECT_EQ(apply(state, record), "holds a snapshot after its first record");
  Past past;
  record.mutable_read();
  EXPECT_EQ(apply(past, record), "holds an answer before the first observation");
  record.set_given_up("it hung");
  EXPECT_EQ(apply(past, record), "holds a call before the first observation");
}

/// State after the job's start, and the functions that continue it.
struct Story {
  Story() {
    JournalRecord record;
    fill_start(*record.mutable_seen()->mutable_observation());
    apply_record(record);
  }
  void apply_record(const JournalRecord& record) {
    EXPECT_EQ(apply(state, record, kRules), std::nullopt) << record.ShortDebugString();
  }
  void show(Nanos now, const std::vector<Event>& events) {
    JournalRecord record;
    record.mutable_seen()->mutable_observation()->set_now(now);
    for (const Event& event : events) {
      encode(event, *record.mutable_seen()->mutable_observation()->add_events());
    }
    apply_record(record);
  }
  void answer(const std::vector<Nanos>& wakes, std::optional<Action> what = {}) {
    JournalRecord record;
    record.mutable_read()->mutable_wakes()->Add(wakes.begin(), wakes.end());
    Decision decision;
    decision.id = decided;
    if (what) decision.what = *what;
    if (what) encode(decision, *record.mutable_read()->add_decisions());
    apply_record(record);
    if (what) ++decided;
  }
  /// Assigns the GPUs from 4 on and applies the assignment, or rejects it.
  void assign(std::uint32_t gpus, Outcome outcome) {
    Assign where{.job = kJob, .gpus = GpuRuns::range({4}, gpus), .layout = {},
                 .state = StateFrom::peer};
    where.layout.data = gpus;
    answer({}, where);
    show(state.now, {Decided{decided - 1, outcome, {}}});
  }

  RunState state;
  DecisionId decided = 0;
};

TEST_F(RunStateTest, AnObservationServesTheWakeUpTimesUpToItsInstant) {
  Story story;
  EXPECT_EQ(next_wake(story.state), kNever);
  story.answer({30, 10, 20});
  EXPECT_EQ(next_wake(story.state), 10);
  story.show(20, {});
  EXPECT_EQ(next_wake(story.state), 30);
  story.answer({5});
  EXPECT_EQ(next_wake(story.state), 5) << "a past instant is due at once";
  story.show(21, {Tick{}});
  EXPECT_EQ(next_wake(story.state), 30);
}

TEST_F(RunStateTest, TheNewestAppliedAssignmentSaysHowManyRanksAreWanted) {
  Story story;
  EXPECT_EQ(story.state.wanted_ranks, 4u);
  story.assign(3, Outcome::rejected);
  EXPECT_EQ(story.state.wanted_ranks, 4u);
  story.assign(3, Outcome::applied);
  EXPECT_EQ(story.state.wanted_ranks, 3u);
  story.show(10, {PartChanged{{PartKind::gpu, 5}, {.health = Health::lost, .rate = 0}}});
  EXPECT_EQ(story.state.wanted_ranks, 4u) << "the assignment is void, the job keeps its GPUs";
}

TEST_F(RunStateTest, TheWorldFollowsObservationsAndAnswersAlsoFromASnapshot) {
  Story story;
  story.show(10, {StepsDone{.job = kJob, .last = 6, .count = 7, .duration = 5}});
  story.answer({}, Configure{kJob, Batch{24, 1}});
  JournalSnapshot snapshot;
  EXPECT_FALSE(save_state(story.state, snapshot)) << "the decision has no outcome";
  story.show(20, {Decided{0, Outcome::applied, {}}});
  JournalRecord record;
  ASSERT_TRUE(save_state(story.state, *record.mutable_snapshot()));
  Past successor;
  ASSERT_EQ(apply(successor, record, kRules), std::nullopt);
  for (const std::optional<World>* world :
       {&story.state.world, &successor.world, &successor.first_world}) {
    ASSERT_TRUE(world->has_value());
    EXPECT_EQ((**world).jobs()[kJob].step, 7u);
    EXPECT_EQ((**world).jobs()[kJob].micro_batches(), 24u);
  }
  story.show(30, {RanksLost{.job = kJob, .ranks = {RankId{1}}, .epoch = {2}}, JobDone{kJob}});
  ASSERT_TRUE(story.state.at_end);
  EXPECT_EQ(story.state.at_end->working, 3u);
}

TEST_F(RunStateTest, AnImpossibleEventOrAnswerIsNamed) {
  Story story;
  JournalRecord record;
  encode(Event{Decided{9, Outcome::applied, {}}},
         *record.mutable_seen()->mutable_observation()->add_events());
  JournalSnapshot snapshot;
  EXPECT_TRUE(save_state(story.state, snapshot));
  EXPECT_EQ(apply(story.state, record, kRules),
            "holds an impossible event: decision 9 was not announced");
  EXPECT_FALSE(save_state(story.state, snapshot)) << "no successor may read such a state";
  record.mutable_read()->add_decisions();  // a decision lacks its action
  const std::optional<std::string> why = apply(story.state, record, kRules);
  ASSERT_TRUE(why);
  EXPECT_TRUE(why->starts_with("holds a record that cannot be applied: ")) << *why;
}

TEST_F(RunStateTest, ARunThatResumesCommitsTheStepOfItsCheckpointFirst) {
  RunState state;
  JournalRecord record;
  record.mutable_resumed()->set_step(40);
  EXPECT_EQ(apply(state, record), std::nullopt);
  EXPECT_EQ(state.core.committed, 40u);
  record.mutable_commit()->set_step(40);
  EXPECT_EQ(apply(state, record), std::nullopt);
  EXPECT_EQ(state.core.committed, 41u);
}

TEST_F(RunStateTest, AHoldLastsFromTheObservationThatShowsItUntilTheJobStarts) {
  RunState state;
  const auto show = [&state](Nanos now, const std::vector<EventRecord>& events) {
    JournalRecord record;
    ObservationRecord& seen = *record.mutable_seen()->mutable_observation();
    seen.set_now(now);
    seen.mutable_events()->Add(events.begin(), events.end());
    EXPECT_EQ(apply(state, record), std::nullopt);
  };
  EventRecord held, stopped, started;
  held.mutable_job_held();
  stopped.mutable_job_stopped();
  started.mutable_job_started();
  EXPECT_EQ(state.held_since, kNever);
  show(10, {held});
  EXPECT_EQ(state.held_since, 10);
  show(20, {started, stopped});
  EXPECT_EQ(state.held_since, 20);
  show(30, {});
  EXPECT_EQ(state.held_since, 20);
  show(40, {started});
  EXPECT_EQ(state.held_since, kNever);
}

}  // namespace
}  // namespace orrery::live
