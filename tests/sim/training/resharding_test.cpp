// Simulated jobs that change the sizes of their replicas while they train: time of the transfer,
// price of the steps, refusals, and equal courses of folded and full simulation.
#include "sim/training/resharding.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/random.hpp"
#include "policies/record/recorder.hpp"
#include "policies/seam/drive.hpp"
#include "sim/estimates/engine/free_engine.hpp"
#include "sim/worlds.hpp"
#include "tests/sim/run.hpp"
#include "topologies/builder.hpp"

namespace orrery::sim {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::in_child;
using testing::small_scenario;
using Lines = std::vector<std::string>;

// ---- time of the transfer -----------------------------------------------------------------

/// Fits of one job to several layouts on the GPUs from 0 on.
class Fits {
 public:
  explicit Fits(const LoadedScenario& loaded)
      : cluster_(build_cluster(loaded.scenario.cluster(), loaded.places)) {
    *setup_.request.mutable_scenario() = loaded.scenario;
    setup_.cluster = &cluster_;
  }
  FittedJob fit(const ParallelLayout& layout) const {
    const auto ranks = static_cast<std::uint32_t>(layout.ranks());
    std::vector<std::uint32_t> numbers(ranks);
    std::iota(numbers.begin(), numbers.end(), 0u);
    return {{.setup = &setup_, .options = {}, .engine = estimates::free_engine, .seed = 1},
            {GpuRuns::range({0}, ranks), layout},
            std::move(numbers),
            nullptr};
  }
  const Cluster& cluster() const { return cluster_; }

 private:
  const Cluster cluster_;
  TrainingSetup setup_;
};

double state_of(const FittedJob& fit, std::uint32_t stage) {
  const MemoryUse use = fit.graph().memory(stage, 1);
  return use.parameters.value + use.optimizer.value;
}

TEST(Resharding, EachRankReceivesItsNewStageOverNvlinkWithinANode) {
  const Fits fits(small_scenario(1, 4, 2));
  FittedJob before = fits.fit({.pipeline = 4, .data = 2});
  FittedJob after = fits.fit({.pipeline = 2, .data = 4});
  const double largest = std::max(state_of(after, 0), state_of(after, 1));
  const double sent = 4 * (state_of(after, 0) + state_of(after, 1)) / 8;
  ASSERT_GT(largest, sent) << "the stage with the vocabulary is the largest";
  const double rate = after.stepper().effective_bandwidth(fits.cluster().nvlink_in({0}), {});
  EXPECT_EQ(reshard_time(fits.cluster(), before, after), to_nanos(largest / rate));
  FittedJob fewer = fits.fit({.pipeline = 4, .data = 1});
  EXPECT_EQ(reshard_time(fits.cluster(), before, fewer), 0) << "each rank has its stage";
}

TEST(Resharding, FewRanksSendForLongerThanManyReceiveOverTheNics) {
  const Fits fits(small_scenario(1, 4, 4));
  FittedJob before = fits.fit({.pipeline = 4, .data = 1});
  FittedJob after = fits.fit({.pipeline = 2, .data = 8});
  const double sent = 8 * (state_of(after, 0) + state_of(after, 1)) / 4;
  const double rate = after.stepper().effective_bandwidth(fits.cluster().nic_out({0}, 0), {});
  EXPECT_EQ(reshard_time(fits.cluster(), before, after), to_nanos(sent / rate));
}

// ---- runs ---------------------------------------------------------------------------------

using Body = std::function<void(const Observation&, DecisionList&)>;

/// Policy that decides as a function says, and records placements, losses and outcomes.
class Scripted : public Policy {
 public:
  explicit Scripted(Body body) : body_(std::move(body)) {}
  Needs needs() const override {
    return {.actions = Kinds<Action>::of<Assign, Save>(), .settings = {}};
  }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
  void observe(Context&, const Observation& seen, DecisionList& decisions) override {
    for (const Event& event : seen.events) {
      if (const auto* started = std::get_if<JobStarted>(&event)) {
        const ParallelLayout& layout = started->where.layout;
        lines.push_back(fmt::format("step {}: {} x {} x {}", started->from, layout.tensor,
                                    layout.pipeline, layout.data));
      }
      if (std::holds_alternative<RanksLost>(event)) lines.push_back("lost");
      if (std::holds_alternative<JobHeld>(event)) lines.push_back("held");
      const auto* outcome = std::get_if<Decided>(&event);
      if (outcome && outcome->status != Outcome::applied) lines.push_back(outcome->reason);
    }
    body_(seen, decisions);
    decisions.rest();
  }

  Lines lines;

 private:
  const Body body_;
};

struct Ran {
  Report report;
  Lines lines;
};

Ran run(const LoadedScenario& loaded, const std::function<Body()>& make, bool full_detail = false) {
  const std::string bytes = in_child([&] {
    RunRequest request;
    *request.mutable_scenario() = loaded.scenario;
    request.set_full_detail(full_detail);
    const Cluster cluster = build_cluster(loaded.scenario.cluster(), loaded.places);
    const std::unique_ptr<RunBackend> world = simulated_world(request, cluster, {});
    Scripted policy(make());
    Rng rng = policy_rng(1);
    Context context{rng, {}};
    Recorder recorder(*world, policy, {}, {});
    drive(policy, recorder, context);
    recorder.finish_log();
    Report report;
    world->fill(report);
    report.clear_warnings();
    for (const std::string& line : policy.lines) report.add_warnings(line);
    return report.SerializeAsString();
  });
  Ran ran;
  EXPECT_TRUE(ran.report.ParseFromString(bytes));
  ran.lines = {ran.report.warnings().begin(), ran.report.warnings().end()};
  return ran;
}

/// Assigns these GPUs with these layouts from these steps on.
Body assigned(std::vector<std::pair<Step, Assign>> plan) {
  return [plan, decided = false](const Observation& seen, DecisionList& decisions) mutable {
    if (seen.jobs.empty() || std::exchange(decided, true)) return;
    for (const auto& [at, assign] : plan) decisions.add(assign, "as planned").at_step = at;
  };
}
Assign layout(std::uint32_t tensor, std::uint32_t pipeline, std::uint32_t data) {
  return {{0},
          GpuRuns::range({0}, tensor * pipeline * data),
          {.tensor = tensor, .pipeline = pipeline, .data = data},
          StateFrom::peer};
}

TEST(Resharding, TheStepsAreThoseOfARunThatBeganWithTheLayout) {
  const auto whole = [](int tensor, int pipeline, int data) {
    return small_scenario(tensor, pipeline, data, {},
                          {"run.steps=12", "job.global_batch=16", "policies=[]"});
  };
  const Ran ran = run(whole(1, 4, 2), [] {
    return assigned({{4, layout(1, 2, 4)}, {8, layout(2, 4, 1)}});
  });
  EXPECT_THAT(ran.lines,
              ElementsAre("step 0: 1 x 4 x 2", "step 4: 1 x 2 x 4", "step 8: 2 x 4 x 1"));
  EXPECT_EQ(ran.report.steps_completed(), 12u);
  EXPECT_EQ(ran.report.micro_batches_lost() + ran.report.micro_batches_repeated() +
                ran.report.micro_batches_recomputed(),
            0u);
  const auto& times = ran.report.step_times_s();
  const auto of = [&](int tensor, int pipeline, int data) {
    return testing::simulate(whole(tensor, pipeline, data)).step_time_s();
  };
  EXPECT_NEAR(times[2], of(1, 4, 2), 1e-9);
  EXPECT_NEAR(times[6], of(1, 2, 4), 1e-9);
  EXPECT_NEAR(times[10], of(2, 4, 1), 1e-9);
  const GpuTime& time = ran.report.gpu_time();
  EXPECT_NEAR(time.idle(), 0, 1e-6) << "all GPUs work in each layout";
  EXPECT_GT(time.recovery(), 0) << "the state has moved";
}

TEST(Resharding, LayoutsThatTheModelOrTheMemoryExcludesAreRefusedByName) {
  const LoadedScenario large = small_scenario(
      1, 4, 2, {},
      {"run.steps=6", "policies=[]", "job.model.hidden=8192", "job.model.feed_forward=32768"});
  const Ran ran = run(large, [] {
    Assign reordered = layout(1, 2, 4);
    reordered.layout.pipeline_last = true;
    return assigned(
        {{2, layout(1, 1, 8)}, {2, layout(3, 1, 2)}, {3, reordered}, {3, layout(1, 4, 2)}});
  });
  ASSERT_EQ(ran.lines.size(), 5u) << ::testing::PrintToString(ran.lines);
  EXPECT_THAT(ran.lines, Contains(HasSubstr("job.layout: out of memory: stage 0 needs")));
  EXPECT_THAT(ran.lines, Contains(HasSubstr("job.layout.tensor: tensor = 3 must divide")));
  EXPECT_THAT(ran.lines, Contains(HasSubstr("keeps the order of its ranks")));
  EXPECT_THAT(ran.lines, Contains("job 0 is placed there already"));
  for (const std::string& line : ran.lines) EXPECT_EQ(line.find('\n'), std::string::npos) << line;
}

TEST(Resharding, ADeclaredPaceKeepsThePipelineDepth) {
  const Ran ran =
      run(small_scenario(1, 2, 4, {}, {"run.steps=6", "policies=[]", "job.pace.micro_batch=10 ms"}),
          [] {
            return assigned({{2, layout(1, 4, 2)}});
          });
  ASSERT_EQ(ran.lines.size(), 2u);
  EXPECT_THAT(ran.lines[1], HasSubstr("live runs keep their pipeline depth"));
}

/// Keeps the number of replicas on the GPUs that work, each with a pipeline as deep as they allow.
Body morphs() {
  return [](const Observation& seen, DecisionList& decisions) {
    const JobInfo* job = seen.jobs.find({0});
    if (job == nullptr || job->phase == JobPhase::done || job->next) return;
    const bool changed = std::any_of(seen.events.begin(), seen.events.end(), [](const Event& each) {
      const auto* part = std::get_if<PartChanged>(&each);
      return std::holds_alternative<RanksLost>(each) || (part && part->to.health == Health::ok);
    });
    if (!changed) return;
    GpuRuns works;
    for (std::uint32_t gpu = 0; gpu < job->spec.gpus; ++gpu) {
      if (seen.state.is_healthy({gpu}, seen.cluster.node_of({gpu}))) works.push_back({gpu});
    }
    ParallelLayout to = job->spec.layout;
    to.pipeline = static_cast<std::uint32_t>(works.size()) / to.data;
    if (to == job->layout && job->lost.empty()) return;
    const std::vector<GpuId> all = works.to_vector();
    const auto count = static_cast<std::ptrdiff_t>(to.ranks());
    const std::vector<bool> lost = lost_replicas(*job);
    const bool peer = std::find(lost.begin(), lost.end(), false) != lost.end();
    decisions.add(Assign{{0},
                         GpuRuns(std::vector<GpuId>(all.begin(), all.begin() + count)),
                         to,
                         peer ? StateFrom::peer : StateFrom::checkpoint},
                  "morphs");
  };
}

TEST(Resharding, AJobThatLosesAGpuTrainsInAShallowerPipelineUntilTheGpuIsBack) {
  const LoadedScenario loaded =
      small_scenario(1, 4, 2, "faults: [{at_step: 5, gpu: 6, down: true, until_step: 20}]\n",
                     {"run.steps=30", "policies=[]",
                      "survival={detection: 20 ms, regroup: 30 ms, "
                      "replacement: 100 ms}"});
  const Ran ran = run(loaded, morphs);
  ASSERT_EQ(ran.lines.size(), 4u) << ::testing::PrintToString(ran.lines);
  EXPECT_EQ(ran.lines[0], "step 0: 1 x 4 x 2");
  EXPECT_EQ(ran.lines[1], "lost");
  EXPECT_THAT(ran.lines[2], HasSubstr(": 1 x 3 x 2"));
  EXPECT_THAT(ran.lines[3], HasSubstr(": 1 x 4 x 2"));
  EXPECT_EQ(ran.report.steps_completed(), 30u);
  EXPECT_EQ(ran.report.micro_batches_lost() + ran.report.micro_batches_repeated(), 0u);
  EXPECT_EQ(run(loaded, morphs, true).lines, ran.lines);
}

TEST(Resharding, ACheckpointIsLoadedInAnotherLayout) {
  const LoadedScenario loaded =
      small_scenario(1, 4, 2, {},
                     {"run.steps=20", "policies=[]", "survival.restart=2 s",
                      "checkpoints={folder: k, every: 6, stall: 20 ms, write: 40 ms}"});
  const auto restarts = []() -> Body {
    return [](const Observation& seen, DecisionList& decisions) {
      for (const Event& event : seen.events) {
        const auto* saved = std::get_if<SaveDone>(&event);
        if (saved == nullptr || saved->step != 12) continue;
        Assign other = layout(1, 8, 1);
        other.state = StateFrom::checkpoint;
        decisions.add(other, "deeper").at_step = 15;
      }
    };
  };
  const Ran ran = run(loaded, restarts);
  EXPECT_THAT(ran.lines, ElementsAre("step 0: 1 x 4 x 2", "held", "step 12: 1 x 8 x 1"));
  EXPECT_EQ(ran.report.steps_completed(), 20u);
  EXPECT_EQ(ran.report.steps_rolled_back(), 3u);
  EXPECT_EQ(run(loaded, restarts, true).lines, ran.lines);
}

/// Layouts and losses at random steps.
struct RandomCourse {
  explicit RandomCourse(std::uint64_t seed) {
    Rng rng(seed);
    for (std::uint64_t i = rng.below(3); i > 0; --i) {
      const std::uint64_t from = 5 + rng.below(60);
      faults.push_back(fmt::format("{{at_step: {}, gpu: {}, down: true, until_step: {}}}", from,
                                   rng.below(8), from + 5 + rng.below(30)));
    }
    if (rng.below(2) == 0) {
      faults.push_back(
          fmt::format("{{at_step: {}, rank: {}, kill: true}}", 3 + rng.below(70), rng.below(8)));
    }
    for (std::uint64_t i = rng.below(3); i > 0; --i) {
      const auto pipeline = static_cast<std::uint32_t>(1 + rng.below(8));
      const auto data = static_cast<std::uint32_t>(1 + rng.below(8 / pipeline));
      plan.emplace_back(5 + rng.below(70), layout(1, pipeline, data));
    }
  }
  LoadedScenario scenario() const {
    return small_scenario(1, 4, 2, fmt::format("faults: [{}]\n", fmt::join(faults, ", ")),
                          {"run.steps=80", "policies=[]", "survival.on_loss=hold",
                           "survival.restart=300 ms", "survival.replacement=100 ms",
                           "checkpoints={folder: k, every: 7, stall: 20 ms, write: 40 ms}"});
  }
  Body body() const {
    return [morph = morphs(), planned = assigned(plan)](const Observation& seen,
                                                        DecisionList& decisions) {
      planned(seen, decisions);
      morph(seen, decisions);
    };
  }

  std::vector<std::string> faults;
  std::vector<std::pair<Step, Assign>> plan;
};

TEST(Resharding, FoldedAndFullSimulationTakeTheSameCourse) {
  std::size_t changes = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const RandomCourse course(seed);
    const auto make = [&course] { return course.body(); };
    const Ran folded = run(course.scenario(), make), full = run(course.scenario(), make, true);
    EXPECT_EQ(folded.lines, full.lines) << "seed " << seed;
    EXPECT_EQ(folded.report.steps_completed(), full.report.steps_completed()) << "seed " << seed;
    EXPECT_EQ(folded.report.steps_rolled_back(), full.report.steps_rolled_back()) << seed;
    EXPECT_NEAR(folded.report.elapsed_s(), full.report.elapsed_s(), 1e-6 * full.report.elapsed_s())
        << "seed " << seed;
    changes += folded.lines.size();
  }
  EXPECT_GT(changes, 200u);
}

}  // namespace
}  // namespace orrery::sim
