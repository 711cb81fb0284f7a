// The same random decisions before two backends: one settles them at once, as a simulator does, the
// other has ranks that must agree and answer later, as live mode has. And before a recording of
// them. ORRERY_SEED is the first seed, ORRERY_SEQUENCES how many of them.
#include <cstdlib>
#include <functional>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "policies/handover/hand_over.hpp"
#include "policies/record/recorder.hpp"
#include "tests/policies/replayed.hpp"
#include "tests/policies/seam/model_backend.hpp"
#include "tests/policies/seam/random_decisions.hpp"

namespace orrery {
namespace {

using test::Fate;
using test::Fates;
using test::ModelBackend;
using test::ModelOptions;
using test::RandomDecisionOptions;
using test::RandomDecisions;

std::uint64_t number_of(const char* name, std::uint64_t otherwise) {
  const char* given = std::getenv(name);
  return given != nullptr ? std::strtoull(given, nullptr, 10) : otherwise;
}

/// Common events of both backends: jobs, and lost ranks with their instants.
struct Scene {
  /// `difficult`: with faults at difficult instants.
  explicit Scene(std::uint64_t seed, bool difficult = true)
      : decisions{.seed = seed, .job = {0}} {
    Rng rng = Rng(seed).split_stream("scene");
    options.steps = 63;  // nothing is under way at the end
    options.job.least_gpus = 2, options.job.most_gpus = 8;
    options.job.can_change_layout = difficult;
    options.job.settings = {OnLoss{static_cast<LossResponse>(rng.below(3))}};
    options.others = {toy::plain(1, 4), toy::plain(2, 2)};
    for (JobSpec& other : options.others) other.most_gpus = 6;
    for (Step step = decisions.every; step < options.steps; step += decisions.every) {
      if (rng.below(2) == 0) continue;
      options.losses[step] = {some_ranks(rng), {}};
    }
    if (difficult) add_difficult_faults(Rng(seed).split_stream("difficult"));
    decisions.loses = [losses = options.losses](Step step) { return losses.contains(step); };
    decisions.loses_again = [second = options.second_losses](Step step) {
      return second.contains(step);
    };
  }
  static std::vector<RankId> some_ranks(Rng& rng) {
    std::vector<RankId> ranks;
    for (std::uint64_t i = 1 + rng.below(2); i > 0; --i) {
      ranks.push_back({static_cast<std::uint32_t>(rng.below(6))});
    }
    return ranks;
  }
  /// Adds a second loss while the first one is being replaced, a loss in the last step, a node or
  /// GPU that goes down and is hit again, by a fault of its own or of its ranks, and returns later.
  void add_difficult_faults(Rng rng) {
    if (rng.below(4) == 0) options.losses[options.steps - 1] = {some_ranks(rng), {}};
    if (rng.below(4) == 0) {
      const auto index = static_cast<std::uint32_t>(rng.below(4));
      const Part node{PartKind::node, index}, gpu{PartKind::gpu, 4 * index + 1};
      const PartState lost{.health = Health::lost, .rate = 0};
      const Step step = decisions.every * (1 + rng.below(3)), later = step + 2 * decisions.every;
      options.losses[step].parts = {{rng.below(2) == 0 ? node : gpu, lost}};
      options.second_losses[step].parts = {{rng.below(2) == 0 ? node : gpu, lost}};
      options.losses[step + decisions.every].parts = {{gpu, lost}};
      options.losses[later].parts = {{node, {}}};
      if (rng.below(2) == 0) options.losses[later].parts.push_back({gpu, {}});
    }
    add_slower_parts(rng.split_stream("slower"));
    for (const auto& [step, faults] : options.losses) {
      if (rng.below(3) == 0) options.second_losses[step].ranks = some_ranks(rng);
    }
  }
  /// Adds a GPU or node that becomes slower in a step of decisions, perhaps together with a loss,
  /// and is well again later.
  void add_slower_parts(Rng rng) {
    if (rng.below(3) > 0) return;
    const auto index = static_cast<std::uint32_t>(rng.below(4));
    const Part part =
        rng.below(2) == 0 ? Part{PartKind::node, index} : Part{PartKind::gpu, 4 * index + 2};
    const Step step = decisions.every * (1 + rng.below(4));
    options.losses[step].parts.push_back({part, {.rate = 0.5}});
    options.losses[step + decisions.every * (1 + rng.below(3))].parts.push_back({part, {}});
  }
  static constexpr Nanos kAtOnce = 1'000'000;
  ModelOptions at_once() const {
    ModelOptions out = options;
    out.start_after = out.stop_after = kAtOnce;
    return out;
  }
  ModelOptions agreed_upon(std::uint64_t seed) const {
    Rng rng = Rng(seed).split_stream("delays");
    const auto delay = [&rng](Nanos most) {
      return static_cast<Nanos>(rng.below(static_cast<std::uint64_t>(most)));
    };
    ModelOptions out = options;
    out.agreement = true;
    out.agree_after = delay(1'900'000'000);
    // No earlier than in the other backend: a second loss comes before.
    out.start_after = kAtOnce + delay(2'500'000'000 - kAtOnce);
    out.stop_after = kAtOnce + delay(2'500'000'000 - kAtOnce);
    return out;
  }

  ModelOptions options;
  RandomDecisionOptions decisions;
};

const Cluster& machines() {
  static const Cluster cluster = toy::cluster(4, 4);
  return cluster;
}

Fates fates_before(Backend& backend, const RandomDecisionOptions& options) {
  RandomDecisions policy(options);
  Rng rng = policy_rng(1);
  Context context{rng, {}};
  drive(policy, backend, context);
  return policy.fates();
}

std::string text(const Fate& fate) {
  return fmt::format("{} -> {} ({} x)", fate.what, fate.outcome, fate.told);
}

/// All decisions before one backend, to find the cause of a difference.
std::string all_of(const char* backend, const Fates& fates) {
  std::string all = fmt::format("\n{}:", backend);
  for (const auto& [id, fate] : fates) all += fmt::format("\n  {} {}", id, text(fate));
  return all;
}

/// The first decision that fared differently; empty: none.
std::string difference(const Fates& one, const Fates& other) {
  for (auto a = one.begin(), b = other.begin(); a != one.end() || b != other.end(); ++a, ++b) {
    if (a == one.end()) return fmt::format("only there: {} {}", b->first, text(b->second));
    if (b == other.end()) return fmt::format("only here: {} {}", a->first, text(a->second));
    if (*a == *b) continue;
    return fmt::format("{} {}\n{} {}", a->first, text(a->second), b->first, text(b->second));
  }
  return {};
}

TEST(Parity, TheSameDecisionsFareTheSameWhetherSettledAtOnceOrAgreedUpon) {
  const std::uint64_t first = number_of("ORRERY_SEED", 1);
  const std::uint64_t count = number_of("ORRERY_SEQUENCES", 3000);
  std::map<std::string, std::uint64_t> outcomes;
  std::uint64_t decisions = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const Scene scene(seed);
    ModelBackend simulated(machines(), scene.at_once());
    ModelBackend live(machines(), scene.agreed_upon(seed));
    const Fates one = fates_before(simulated, scene.decisions);
    const Fates other = fates_before(live, scene.decisions);
    ASSERT_EQ(difference(one, other), "")
        << "ORRERY_SEED=" << seed << all_of("at once", one) << all_of("agreed upon", other);
    for (const auto& [id, fate] : one) {
      ASSERT_EQ(fate.told, 1) << text(fate) << " ORRERY_SEED=" << seed;
      ++outcomes[fate.outcome.substr(0, fate.outcome.find(' '))];
    }
    decisions += one.size();
  }
  fmt::print("{} sequences, {} decisions: {} applied, {} rejected, {} expired, 0 differences\n",
             count, decisions, outcomes["applied"], outcomes["rejected:"], outcomes["expired:"]);
  EXPECT_GE(decisions, 8 * count);
  EXPECT_GE(outcomes["applied"], decisions / 4);
  EXPECT_GE(outcomes["rejected:"], decisions / 10);
  EXPECT_GE(outcomes["expired:"], decisions / 50);
}

/// 507826: shares beside an assignment that is refused while an earlier one is pending, then shares
/// for a later step. The first ones must stay the first. 1087972: shares without a step after those
/// for a later step, on which the ranks agree only after that step. The later step must win.
TEST(Parity, SequencesThatDifferedOnceNoLongerDo) {
  for (const std::uint64_t seed : {507826u, 1087972u}) {
    Scene scene(seed, false);
    scene.decisions.mixes_steps = false;  // the sequences were found without
    ModelBackend simulated(machines(), scene.at_once());
    ModelBackend live(machines(), scene.agreed_upon(seed));
    EXPECT_EQ(difference(fates_before(simulated, scene.decisions),
                         fates_before(live, scene.decisions)), "") << seed;
  }
}

TEST(Parity, ARecordingShowsEachDecisionWhatBecameOfItThen) {
  const toy::TempDir dir;
  const std::uint64_t first = number_of("ORRERY_SEED", 1);
  for (std::uint64_t seed = first; seed < first + 200; ++seed) {
    const Scene scene(seed);
    ModelBackend backend(machines(), seed % 2 == 0 ? scene.at_once() : scene.agreed_upon(seed));
    HandOver handed_over(backend, {.per_hour = seed % 3 == 0 ? 9u : 0u});
    RandomDecisions policy(scene.decisions), again(scene.decisions);
    Recorder recorder(handed_over, policy, LogHeader{}, {.path = dir / "log"});
    Rng rng = policy_rng(1);
    Context context{rng, {}};
    drive(policy, recorder, context);
    recorder.finish_log();
    ASSERT_EQ(toy::replay_to(again, dir / "log", machines()), "") << "ORRERY_SEED=" << seed;
    ASSERT_EQ(difference(policy.fates(), again.fates()), "") << "ORRERY_SEED=" << seed;
  }
}

Scene any_scene(std::uint64_t seed) { return Scene(seed); }

/// Returns the number of sequences, of a hundred, with a difference between these two.
template <class Make>
int differences(Make make_other, const std::function<Scene(std::uint64_t)>& scene_of = any_scene) {
  int differ = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Scene scene = scene_of(seed);
    ModelBackend right(machines(), scene.at_once());
    const auto other = make_other(scene, seed);
    const Fates one = fates_before(right, scene.decisions);
    differ += difference(one, fates_before(*other, scene.decisions)).empty() ? 0 : 1;
  }
  return differ;
}

TEST(Parity, GroupsThatAreTakenOneByOneWouldShow) {
  class OneByOne : public ModelBackend {
   public:
    using ModelBackend::ModelBackend;
    void apply(const DecisionList& decisions) override {
      DecisionList loose;
      for (Decision decision : decisions.items()) {
        decision.group = 0;
        loose.put_decision(std::move(decision));
      }
      for (const Nanos at : decisions.wake_times()) loose.wake(at);
      ModelBackend::apply(loose);
    }
  };
  EXPECT_GT(differences([](const Scene& scene, std::uint64_t) {
              return std::make_unique<OneByOne>(machines(), scene.at_once());
            }), 20);
}

TEST(Parity, AnAgreementThatTakesLongerThanPoliciesAllowWouldShow) {
  EXPECT_GT(differences([](const Scene& scene, std::uint64_t seed) {
              ModelOptions slow = scene.agreed_upon(seed);
              slow.agree_after = 3'500'000'000;
              return std::make_unique<ModelBackend>(machines(), slow);
            }), 5);
}

TEST(Parity, AnotherLossWouldShow) {
  EXPECT_GT(differences([](const Scene& scene, std::uint64_t) {
              ModelOptions other = scene.at_once();
              for (auto& [step, faults] : other.losses) faults.ranks = {{1}};
              return std::make_unique<ModelBackend>(machines(), other);
            }), 20);
}

/// Returns a scene in which GPU 0 is lost while rank 1 is being replaced: without rank 0 the
/// replacement is void, because it would start a process on the lost GPU.
Scene with_void_replacement(std::uint64_t seed) {
  Scene scene(seed, false);
  scene.options.job.settings = {OnLoss{LossResponse::replace}};
  const Part gpu{PartKind::gpu, 0};
  const PartState lost{.health = Health::lost, .rate = 0};
  for (auto& [step, faults] : scene.options.losses) {
    faults.ranks = {{1}};
    scene.options.second_losses[step].parts = {{gpu, lost}};
  }
  scene.decisions.loses_again = scene.decisions.loses;
  return scene;
}

TEST(Parity, AVoidAssignmentIsDroppedInBothAndWouldShowIfItWereNot) {
  EXPECT_EQ(differences(
                [](const Scene& scene, std::uint64_t seed) {
                  return std::make_unique<ModelBackend>(machines(), scene.agreed_upon(seed));
                },
                with_void_replacement),
            0);
  EXPECT_GT(differences(
                [](const Scene& scene, std::uint64_t) {
                  ModelOptions wrong = scene.at_once();
                  wrong.drops_void_assignments = false;
                  return std::make_unique<ModelBackend>(machines(), wrong);
                },
                with_void_replacement),
            20);
}

}  // namespace
}  // namespace orrery
