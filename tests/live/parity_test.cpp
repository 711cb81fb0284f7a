// The same random decisions in the simulator and over real processes have the same outcomes and
// reasons. Decisions are made at the end of a step, so that no outcome depends on whether a step
// has just begun. ORRERY_SEED is the first seed, ORRERY_LIVE_SEQUENCES their number,
// ORRERY_LIVE_SIDE the number that runs at a time: the runs mostly wait. With ORRERY_RECORD=FOLDER
// the logs of both worlds are SEED-sim.log and SEED-live.log there.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "tests/live/live_run.hpp"
#include "tests/policies/seam/random_decisions.hpp"

namespace orrery::live {
namespace {

using test::Fate;
using test::Fates;
using test::RandomDecisionOptions;
using test::RandomDecisions;

const std::string kSimulator = ORRERY_BINARY_DIR "/bin/orrery-sim";
constexpr Step kEvery = 6, kGrid = 3;

std::uint64_t number_of(const char* name, std::uint64_t otherwise) {
  const char* given = std::getenv(name);
  return given != nullptr ? std::strtoull(given, nullptr, 10) : otherwise;
}

/// Difficult instants of the faults of one sequence.
struct Instants {
  bool second_loss = false;  ///< another rank is killed in the step after a kill
  bool last_step = false;    ///< a rank is killed in the last step
  bool down_twice = false;   ///< the node of the spares and one of its GPUs go down, twice each
};

Instants instants_of(std::uint64_t seed) {
  Rng rng = Rng(seed).split_stream("instants");
  return {.second_loss = rng.below(3) == 0,
          .last_step = rng.below(3) == 0,
          .down_twice = rng.below(4) == 0};
}

/// Number of steps of a sequence.
constexpr Step kSteps = (kGrid + 1) * kEvery - 1;

/// Loss of a rank at the begin of a step.
struct Kill {
  Step step;
  std::uint64_t rank;
};

/// Returns the kills of a sequence: in the step after decisions, and at its difficult instants.
std::vector<Kill> kills_of(std::uint64_t seed, Rng& rng) {
  const Instants instants = instants_of(seed);
  std::vector<Kill> kills;
  for (Step step = kEvery; step <= kGrid * kEvery; step += kEvery) {
    if (rng.below(2) == 0) continue;
    const std::uint64_t first = rng.below(4), count = 1 + rng.below(2);
    for (std::uint64_t i = 0; i < count; ++i) kills.push_back({step + 1, (first + i) % 4});
    if (instants.second_loss) kills.push_back({step + 2, (first + count) % 4});
  }
  if (instants.last_step) kills.push_back({kSteps - 1, rng.below(4)});
  return kills;
}

Rng scene_rng(std::uint64_t seed) { return Rng(seed).split_stream("scene"); }

/// Returns the faults of a sequence: its kills, and GPUs, with a rank or without, that become
/// slower two steps after decisions for up to two steps, or go down.
std::vector<std::string> faults_of(std::uint64_t seed, Rng& rng) {
  const Instants instants = instants_of(seed);
  std::vector<std::string> faults;
  for (const Kill& kill : kills_of(seed, rng)) {
    faults.push_back(fmt::format("{{at_step: {}, rank: {}, kill: true}}", kill.step, kill.rank));
  }
  Rng slower = rng.split_stream("slower");
  for (Step step = kEvery; step <= kGrid * kEvery; step += kEvery) {
    faults.push_back(fmt::format("{{at_step: {}, gpu: {}, rate: 0.8, until_step: {}}}", step + 2,
                                 slower.below(8), step + 3 + slower.below(2)));
  }
  if (!instants.down_twice) return faults;
  const Step at = kEvery * rng.below(kGrid) + 2;
  for (const Step step : {at, at + kEvery}) {
    faults.push_back(fmt::format("{{at_step: {}, gpu: 5, down: true}}", step));
    // Live, the processes end at once, and are not silent.
    faults.push_back(
        fmt::format("{{at_step: {}, node: 1, down: true, detection: 10 ms}}", step + 1));
  }
  return faults;
}

/// Policy that decides at random, and checks that the decision has its effect by the next time.
class Sequence : public RandomDecisions {
 public:
  explicit Sequence(std::uint64_t seed)
      : RandomDecisions(
            {.seed = seed,
             .job = {0},
             .every = kEvery,
             .within = false,
             .needs = {.actions = Kinds<Action>::all(), .settings = kLiveSettings}}),
        seed_(seed) {
    Rng rng = scene_rng(seed);
    for (const Kill& kill : kills_of(seed, rng)) kills_.insert(kill.step);
  }

  void observe(Context& context, const Observation& seen, DecisionList& decisions) override {
    bool news = false, on_the_grid = false, beyond = false, lost = false, broken = false;
    bool replacement_broken = false, starts = false;
    for (const Event& event : seen.events) {
      // How many of these there are, and when, is a matter of time.
      const bool timely = std::holds_alternative<RanksSuspected>(event) ||
                          std::holds_alternative<SaveDone>(event) ||
                          std::holds_alternative<Tick>(event);
      news = news || !timely;
      lost = lost || std::holds_alternative<RanksLost>(event);
      const auto* part = std::get_if<PartChanged>(&event);
      if (part != nullptr && part->to.health == Health::lost) {
        broken = true;
        replacement_broken = replacement_broken || contains(seen.cluster, replaced_on_, part->part);
      }
      const auto* saved = std::get_if<SaveDone>(&event);
      if (saved != nullptr && saved->durable) saved_.insert(saved->step);
      const auto* started = std::get_if<JobStarted>(&event);
      starts = starts || (started != nullptr && kills_.contains(started->from) && !gpus_.empty() &&
                          started->where.gpus != gpus_);
      const auto* done = std::get_if<StepsDone>(&event);
      if (done == nullptr) continue;
      const Step end = done->last + 1;
      on_the_grid = on_the_grid || end / kEvery > (end - done->count) / kEvery;
      beyond = beyond || end % kEvery != 0;
    }
    const JobInfo* job = seen.jobs.find({0});
    const bool restarts = job != nullptr && job->is_restarting;
    if (restarts && !std::exchange(restarting_, restarts)) ++restarts_;
    restarting_ = restarts;
    const bool was_moving =
        std::exchange(moves_, job != nullptr && job->next && job->next->gpus != job->gpus);
    moving_ = job != nullptr && job->next.has_value();
    const bool replaces = moving_ && job->phase == JobPhase::running && !job->lost.empty();
    replaced_on_ = replaces ? job->next->gpus : GpuRuns();
    late_ = late_ || (on_the_grid && (beyond || lost || moving_)) ||
            ((lost || broken) && was_moving) || replacement_broken;
    // Only then moves last several steps.
    const bool lasts = moves_ && instants_of(seed_).second_loss;
    moves_at_kill_ = moves_at_kill_ || (lasts && kills_.contains(job->step));
    starts_at_kill_ = starts_at_kill_ || starts;
    gpus_ = job != nullptr ? job->gpus : GpuRuns();
    if (!news) return;
    RandomDecisions::observe(context, seen, decisions);
    for (const auto& [id, fate] : fates()) saved_before_.try_emplace(id, saved_);
  }
  /// Returns true if the comparison is void: an observation at the grid came too late, a rank was
  /// not there yet, a rank or a part was lost before the job had the other GPUs that it was
  /// assigned, or a part before lost ranks were replaced. The loss of a rank during a replacement
  /// on the same GPUs is compared.
  bool late() const { return late_; }
  /// Returns true if a rank was to be lost while the job moved to other GPUs for several steps.
  bool moves_at_kill() const { return moves_at_kill_; }
  /// Returns true if a rank was to be lost in the step with which the job began on other GPUs.
  bool starts_at_kill() const { return starts_at_kill_; }
  /// Returns the steps of the checkpoints that were complete when the policy made this decision;
  /// those of the whole run for a decision that it did not make.
  const std::set<Step>& saved_before(DecisionId id) const {
    const auto found = saved_before_.find(id);
    return found != saved_before_.end() ? found->second : saved_;
  }
  /// Returns the number of restarts from a checkpoint.
  std::uint64_t restarts() const { return restarts_; }

 private:
  /// Returns true if one of the GPUs is the part or in it.
  static bool contains(const Cluster& cluster, const GpuRuns& gpus, Part part) {
    return std::any_of(gpus.begin(), gpus.end(), [&cluster, part](GpuId gpu) {
      return part.kind == PartKind::gpu ? gpu.value == part.index
                                        : part.kind == PartKind::node &&
                                              cluster.node_of(gpu).value == part.index;
    });
  }

  const std::uint64_t seed_;
  bool late_ = false, moving_ = false, moves_ = false, restarting_ = false;
  bool moves_at_kill_ = false, starts_at_kill_ = false;
  GpuRuns replaced_on_;  ///< GPUs of a job that waits for the replacement of lost ranks
  std::uint64_t restarts_ = 0;
  std::set<Step> saved_;
  std::set<Step> kills_;  ///< steps in which ranks are to be lost
  GpuRuns gpus_;          ///< those of the job at the end of the previous call
  std::map<DecisionId, std::set<Step>> saved_before_;
};

/// Four ranks, two micro-batches each.
RunRequest scene(std::uint64_t seed, int pace_ms, const std::string& folder) {
  Rng rng = scene_rng(seed);
  const std::vector<std::string> faults = faults_of(seed, rng);
  constexpr const char* kResponses[] = {"go-on", "hold", "replace"};
  return request(
      {fmt::format("faults=[{}]", fmt::join(faults, ", ")), fmt::format("run.steps={}", kSteps),
       // Four spares; the job grows to as many ranks as it has micro-batches.
       "cluster.nodes=2", "elastic=true", fmt::format("job.pace.micro_batch={} ms", pace_ms),
       "job.max_share=2", fmt::format("live.reproducible={}", rng.below(2) == 0),
       // A loss just after the begin of a checkpoint spoils it in both worlds.
       fmt::format("checkpoints={{folder: {}, every: 10, write: 20 ms, "
                   "write_memory: 20 ms, write_peer: 20 ms}}",
                   folder),
       fmt::format("survival.on_loss={}", kResponses[rng.below(3)]),
       // Nobody is stopped here: silence is the machine's.
       "survival.heartbeat_timeout=30 s", fmt::format("survival.hold_limit={} ms", 20 * pace_ms),
       // A second loss falls into the replacement of the first.
       fmt::format("survival.replacement={} ms", instants_of(seed).second_loss ? 3 * pace_ms : 1),
       "survival.restart=1 ms"});
}

/// Returns the first decision that fared differently, or that only one world made; nothing if the
/// worlds agree.
std::optional<DecisionId> first_difference(const Fates& live, const Fates& simulated) {
  const auto [a, b] = std::ranges::mismatch(live, simulated);
  if (a == live.end() && b == simulated.end()) return {};
  if (a == live.end()) return b->first;
  return b == simulated.end() ? a->first : std::min(a->first, b->first);
}

/// Returns true if the decision was refused because an assignment was pending.
bool is_assigned_already(const Fates& fates, DecisionId id) {
  const auto found = fates.find(id);
  return found != fates.end() &&
         found->second.outcome.find("is being assigned already") != std::string::npos;
}

/// All that became of them, for whoever has to find out why two worlds differ.
std::string all_of(const char* world, const Fates& fates) {
  std::string text = fmt::format("\n{}:", world);
  for (const auto& [id, fate] : fates) {
    text += fmt::format("\n  {} {} -> {}", id, fate.what, fate.outcome);
  }
  return text;
}

/// Returns the lost ranks of the run, with the causes.
std::string losses_of(const Report& report) {
  std::string text;
  for (const FailureReport& each : report.failures()) {
    text += fmt::format("\n{:.3f} s: {}", each.time_s(), each.cause());
  }
  return text;
}

/// Sums over all sequences; used by several threads.
class Totals {
 public:
  /// Counts a sequence that was compared. `state_lost`: the live run has ended with the loss of the
  /// training state, so that later decisions of the simulated run are left out.
  void add(std::uint64_t seed, const Sequence& live, bool state_lost) {
    const std::scoped_lock lock(mutex_);
    ++sequences_;
    cut_ += state_lost ? 1 : 0;
    for (const auto& [id, fate] : live.fates()) {
      EXPECT_EQ(fate.told, 1) << fate.what;
      ++outcomes_[fate.outcome.substr(0, fate.outcome.find(' '))];
    }
    decisions_ += live.fates().size();
    restarts_ += live.restarts();
    const Instants instants = instants_of(seed);
    second_losses_ += instants.second_loss ? 1 : 0;
    last_steps_ += instants.last_step ? 1 : 0;
    down_twice_ += instants.down_twice ? 1 : 0;
  }
  /// Counts a sequence in which a rank was to be lost while the job moved to other GPUs: whether
  /// the rank has left by then is a matter of time.
  void add_loss_in_move() {
    const std::scoped_lock lock(mutex_);
    ++moves_;
  }
  /// Counts a sequence in which a checkpoint was complete before a loss in one world only: then
  /// the worlds may restore other states, and decide otherwise.
  void add_void() {
    const std::scoped_lock lock(mutex_);
    ++void_;
  }
  /// Returns the number of sequences that were compared.
  std::uint64_t compared() {
    const std::scoped_lock lock(mutex_);
    return sequences_;
  }
  void check_and_print(std::uint64_t expected) {
    fmt::print(
        "{} sequences, {} decisions: {} applied ({} restarts), {} rejected, {} expired, 0 "
        "differences, {} void, {} with a loss in a move, {} up to the loss of the state\n",
        sequences_, decisions_, outcomes_["applied"], restarts_, outcomes_["rejected:"],
        outcomes_["expired:"], void_, moves_, cut_);
    fmt::print("{} with second losses, {} with a loss in the last step, {} with parts down twice\n",
               second_losses_, last_steps_, down_twice_);
    EXPECT_EQ(sequences_ + void_ + moves_, expected);
    // `.ci/soak` checks the share over all of its blocks, which are small.
    if (expected >= 40) {
      EXPECT_LE(moves_, 1 + expected / 5) << "sequences with a loss in a move";
    }
    EXPECT_LE(void_, 1 + expected / 50) << "sequences with other checkpoints";
    if (expected < 5) return;  // too few to expect anything of
    EXPECT_GE(decisions_, 3 * expected);
    EXPECT_GE(outcomes_["applied"], 1u);
    EXPECT_GE(outcomes_["rejected:"], 1u);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::uint64_t> outcomes_;
  std::uint64_t sequences_ = 0, decisions_ = 0, restarts_ = 0, void_ = 0, moves_ = 0;
  std::uint64_t second_losses_ = 0, last_steps_ = 0, down_twice_ = 0;
  std::uint64_t cut_ = 0;  ///< compared sequences that end with the loss of the training state
};

/// Runs the sequence of this seed in both worlds.
void compare_worlds(std::uint64_t seed, Totals& totals) {
  const std::string folder = fmt::format("{}/checkpoints-{}", kOwnRuns.path(), seed);
  std::string why;
  bool other_checkpoints = false;
  // A machine may be too slow to start a rank within a few steps: again, with longer ones.
  for (int pace_ms = 5 * kBriskPaceMs;; pace_ms *= 2) {
    if (pace_ms > 80 * kBriskPaceMs && other_checkpoints) return totals.add_void();
    ASSERT_LE(pace_ms, 80 * kBriskPaceMs)
        << "ORRERY_SEED=" << seed << ": nothing can be compared at any pace: " << why;
    RunRequest asked = scene(seed, pace_ms, folder);
    const auto record = [&asked, seed](const char* world) {
      if (const char* logs = std::getenv("ORRERY_RECORD"); logs != nullptr) {
        asked.set_record(fmt::format("{}/{}-{}.log", logs, seed, world));
      }
    };
    Sequence live(seed), simulated(seed);
    record("sim");
    const Report expected = run_in_worker(kSimulator, asked, &simulated);
    std::filesystem::remove_all(folder);
    const Instants instants = instants_of(seed);
    if (simulated.moves_at_kill() ||
        (simulated.late() &&
         (instants.second_loss || instants.down_twice || instants.last_step))) {
      return totals.add_loss_in_move();
    }
    record("live");
    const Report ran = run_in_worker(kProgram, asked, &live);
    std::filesystem::remove_all(folder);
    ASSERT_FALSE(simulated.late()) << "ORRERY_SEED=" << seed;
    // A live rank can be lost before the others have formed the epoch of the move.
    if (live.late() && simulated.starts_at_kill()) return totals.add_loss_in_move();
    // The simulated job waits for an assignment; the live run ends, because no rank is left.
    const bool replaces = asked.scenario().survival().on_loss() == "replace";
    const bool state_lost =
        !replaces && ran.unfinished().find("the training state") != std::string::npos;
    Fates known = simulated.fates();
    if (state_lost) {
      std::erase_if(known,
                    [&live](const auto& each) { return !live.fates().contains(each.first); });
      ASSERT_GT(expected.failures_size(), 0) << "ORRERY_SEED=" << seed << losses_of(ran);
    }
    // A hold that lasts too long ends the live run.
    const bool same_end = state_lost || ran.steps_completed() == expected.steps_completed();
    const std::optional<DecisionId> differs = first_difference(live.fates(), known);
    other_checkpoints = differs && live.saved_before(*differs) != simulated.saved_before(*differs);
    // The step of a deferred decision came before the ranks of an earlier one.
    const bool slow = live.late() || (differs && is_assigned_already(live.fates(), *differs));
    if (slow || !same_end || other_checkpoints) {
      why = slow ? "ranks are started too slowly"
                        : fmt::format("the live run has {} steps ({}), the simulated one {} ({})",
                                      ran.steps_completed(), ran.unfinished(),
                                      expected.steps_completed(), expected.unfinished());
      why += all_of("live", live.fates()) + all_of("simulated", simulated.fates()) + losses_of(ran);
      fmt::print("ORRERY_SEED={}: repeated with longer steps than {} ms: {}\n", seed, pace_ms, why);
      continue;
    }
    ASSERT_FALSE(differs) << "ORRERY_SEED=" << seed << ": decision " << *differs
                          << all_of("live", live.fates()) << all_of("simulated", simulated.fates())
                          << losses_of(ran);
    totals.add(seed, live, state_lost);
    return;
  }
}

TEST(LiveParity, RandomDecisionsFareTheSameInBothWorlds) {
  const std::uint64_t first = number_of("ORRERY_SEED", 1);
  // Given numbers are of sequences that begin, so that blocks of seeds do not overlap; otherwise as
  // many begin as are needed to compare the number.
  const bool given = std::getenv("ORRERY_LIVE_SEQUENCES") != nullptr;
  const std::uint64_t count = number_of("ORRERY_LIVE_SEQUENCES", kSanitized ? 5 : 40);
  Totals totals;
  std::atomic<std::uint64_t> next = first;
  const auto run_lane = [&] {
    while (!::testing::Test::HasFailure()) {
      if (!given && totals.compared() >= count) return;
      const std::uint64_t seed = next++;
      if (given && seed >= first + count) return;
      compare_worlds(seed, totals);
    }
  };
  std::vector<std::jthread> lanes;
  for (std::uint64_t i = 0; i < number_of("ORRERY_LIVE_SIDE", kSanitized ? 1 : 6); ++i) {
    lanes.emplace_back(run_lane);
  }
  lanes.clear();
  totals.check_and_print(given ? count : next - first);
}

}  // namespace
}  // namespace orrery::live
