// Placement of a simulated job: decisions of policies with and without lost ranks.
#include "sim/training/training_run.hpp"

#include <functional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policies/record/recorder.hpp"
#include "policies/seam/drive.hpp"
#include "sim/worlds.hpp"
#include "tests/sim/run.hpp"
#include "topologies/builder.hpp"

namespace orrery::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::in_child;

/// Policy given as a function of its observation.
class Scripted : public Policy {
 public:
  using Body = std::function<void(const Observation&, DecisionList&)>;
  Scripted(Body body, bool rests) : body_(std::move(body)), rests_(rests) {}
  Needs needs() const override {
    return {.actions = Kinds<Action>::of<Assign, Save, Configure>(),
            .settings = Kinds<Setting>::of<OnLoss, CheckpointPlan>()};
  }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
  void observe(Context&, const Observation& seen, DecisionList& decisions) override {
    body_(seen, decisions);
    if (rests_) decisions.rest();
  }

 private:
  Body body_;
  bool rests_;
};

struct Ran {
  Report report;
  std::vector<std::string> lines;
};

/// Options of a run and of its policy.
struct Ways {
  bool rests = true;  ///< the policy rests after each call
  bool full_detail = false;
  std::string mode = {};
};

/// Runs the example with a kill, changed by `overrides`, under `body`; `note` adds a line.
Ran run(const std::vector<std::string>& overrides,
        const std::function<Scripted::Body(std::vector<std::string>& lines)>& make,
        const Ways& ways = {}) {
  const std::string bytes = in_child([&] {
    const LoadedScenario loaded = load_scenario(
        std::string(ORRERY_SOURCE_DIR) + "/examples/kill-one-rank.yaml", overrides);
    RunRequest request;
    *request.mutable_scenario() = loaded.scenario;
    request.set_full_detail(ways.full_detail);
    request.set_mode(ways.mode);
    const Cluster cluster = build_cluster(loaded.scenario.cluster(), loaded.places);
    const std::unique_ptr<RunBackend> world = simulated_world(request, cluster, {});
    RunBackend& backend = *world;
    std::vector<std::string> lines;
    Scripted policy(make(lines), ways.rests);
    Rng rng = policy_rng(1);
    Context context{rng, {}};
    Recorder recorder(backend, policy, {}, {});
    Report report;
    report.set_decisions(drive(policy, recorder, context));
    recorder.finish_log();
    backend.fill(report);
    for (const std::string& line : lines) report.add_warnings(line);
    return report.SerializeAsString();
  });
  Ran ran;
  EXPECT_TRUE(ran.report.ParseFromString(bytes));
  ran.lines = {ran.report.warnings().begin(), ran.report.warnings().end()};
  return ran;
}

const std::vector<std::string> kCalm{"faults=[]", "policies=[]"};
const std::vector<std::string> kKill{"policies=[]"};

GpuRuns without(const JobInfo& job, std::uint32_t gone) {
  GpuRuns gpus;
  for (const GpuId gpu : job.gpus) {
    if (gpu.value != gone) gpus.push_back(gpu);
  }
  return gpus;
}

TEST(Standing, FourRanksBecomeThreeAndFourAgainBetweenSteps) {
  const Ran ran = run(kCalm, [](std::vector<std::string>& lines) {
    return [&lines](const Observation& seen, DecisionList& decisions) {
      const JobInfo* job = seen.jobs.find({0});
      for (const Event& event : seen.events) {
        if (const auto* started = std::get_if<JobStarted>(&event)) {
          lines.push_back(fmt::format("step {} on {}", started->from, started->where.gpus.size()));
          if (started->from == 0) {
            ParallelLayout three = job->layout;
            three.data = 3;
            decisions.add(Assign{{0}, without(*job, 1), three, StateFrom::peer}, "").at_step = 8;
          } else if (started->where.gpus.size() == 3) {
            decisions.add(Assign{{0}, GpuRuns::range({0}, 4), job->spec.layout, StateFrom::peer},
                          "").at_step = 20;
          }
        }
        if (const auto* outcome = std::get_if<Decided>(&event)) {
          lines.push_back(outcome->status == Outcome::applied ? "applied" : outcome->reason);
        }
      }
    };
  });
  EXPECT_EQ(ran.report.steps_completed(), 30u);
  EXPECT_EQ(ran.report.micro_batches_lost(), 0u);
  EXPECT_EQ(ran.report.micro_batches_repeated(), 0u);
  EXPECT_EQ(ran.report.micro_batches_recomputed(), 0u) << "between two steps nothing is given up";
  ASSERT_EQ(ran.lines.size(), 5u) << ::testing::PrintToString(ran.lines);
  EXPECT_EQ(ran.lines[0], "step 0 on 4");
  EXPECT_THAT(ran.lines, ::testing::Contains("step 8 on 3"));
  EXPECT_THAT(ran.lines.back(), HasSubstr(" on 4"));
  const auto& times = ran.report.step_times_s();
  EXPECT_NEAR(times[7], times[0], 1e-3);
  EXPECT_NEAR(times[12], 6 * 0.040, 0.01) << "sixteen micro-batches on three: one has six";
  EXPECT_NEAR(times[29], times[0], 1e-3);
}

/// Moves the job after step 3 to `gpus` and after step 24 back to its first GPUs.
Ran moved_to(const std::vector<std::string>& overrides, const GpuRuns& gpus) {
  return run(overrides, [gpus](std::vector<std::string>& lines) {
    return [&lines, gpus](const Observation& seen, DecisionList& decisions) {
      for (const Event& event : seen.events) {
        if (const auto* started = std::get_if<JobStarted>(&event)) {
          lines.push_back(fmt::format("{}", started->where.gpus.size()));
          const bool first = started->epoch == Epoch{1};
          const GpuRuns to = first ? gpus : GpuRuns::range({0}, 4);
          if (started->epoch > Epoch{2}) continue;
          decisions.add(Assign{{0}, to, {.data = static_cast<std::uint32_t>(to.size())},
                               StateFrom::peer}, "").at_step = first ? 4 : 25;
        }
        const auto* outcome = std::get_if<Decided>(&event);
        if (outcome && outcome->status != Outcome::applied) lines.push_back(outcome->reason);
      }
    };
  });
}

TEST(Standing, AnElasticJobGrowsBeyondItsFirstGpusAndShrinksAgain) {
  for (const std::uint32_t ranks : {5u, 12u, 16u}) {
    std::vector<std::string> overrides = kCalm;
    overrides.insert(overrides.end(), {"elastic=true", "cluster.nodes=4", "run.steps=40"});
    const Ran ran = moved_to(overrides, GpuRuns::range({0}, ranks));
    EXPECT_EQ(ran.report.steps_completed(), 40u);
    EXPECT_THAT(ran.lines, ElementsAre("4", fmt::format("{}", ranks), "4"));
  }
}

TEST(Standing, AJobMovesToGpusOfManyNodes) {
  std::vector<std::string> overrides = kCalm;
  overrides.insert(overrides.end(), {"cluster.nodes=4", "run.steps=40"});
  const Ran ran = moved_to(overrides, {{3}, {5}, {8}, {14}});
  EXPECT_EQ(ran.report.steps_completed(), 40u);
  EXPECT_THAT(ran.lines, ElementsAre("4", "4", "4"));
}

TEST(Standing, AMoveToWarmSparesTakesTheTimeOfAWarmJoin) {
  const auto joined = [](std::uint32_t to, const std::vector<std::string>& more) {
    std::vector<std::string> overrides = kCalm;
    overrides.insert(overrides.end(), {"cluster.nodes=2", "survival.replacement=2 s"});
    overrides.insert(overrides.end(), more.begin(), more.end());
    const Ran ran = run(overrides, [to](std::vector<std::string>& lines) {
      return [&lines, to](const Observation& seen,
                           DecisionList& decisions) {
        for (const Event& event : seen.events) {
          const auto* started = std::get_if<JobStarted>(&event);
          if (started == nullptr) continue;
          if (started->epoch == Epoch{1}) {
            decisions.add(Assign{{0}, {{0}, {1}, {2}, {to}}, {.data = 4}, StateFrom::peer}, "");
          } else {
            lines.push_back(fmt::format("{}", seen.now / 100'000'000));
          }
        }
      };
    });
    return ran.lines.empty() ? 99 : std::stoi(ran.lines.front());  // tenths of a second
  };
  EXPECT_GE(joined(4, {}), 20);
  EXPECT_LT(joined(4, {"survival.warm=1"}), 5);
  EXPECT_GE(joined(5, {"survival.warm=1"}), 20) << "the spare waits on GPU 4";
  EXPECT_GE(joined(4, {"survival.warm=1", "survival.warm_join=3 s"}), 30);
}

TEST(Standing, AnElasticJobStaysBelowTheLargestNumberOfReplicasThatItCanRunWith) {
  std::vector<std::string> overrides = kCalm;
  overrides.insert(overrides.end(), {"elastic=true", "cluster.nodes=8"});  // sixteen micro-batches
  const Ran ran = moved_to(overrides, GpuRuns::range({0}, 20));
  EXPECT_THAT(ran.lines, ElementsAre("4", "job 0 wants 1 to 16 GPUs, not 20"));
}

/// Lines for suspicions, losses and parts, with their instants in milliseconds.
Scripted::Body tell_losses(std::vector<std::string>& lines) {
  return [&lines](const Observation& seen, DecisionList&) {
    for (const Event& event : seen.events) {
      const auto told = [&](const std::string& what) {
        lines.push_back(fmt::format("{} ms: {}", seen.now / 1'000'000, what));
      };
      if (const auto* suspected = std::get_if<RanksSuspected>(&event)) {
        told(suspected->ranks.empty() ? "nobody suspected"
                                      : fmt::format("{} suspected", suspected->ranks[0].value));
      }
      if (const auto* lost = std::get_if<RanksLost>(&event)) {
        told(fmt::format("{} lost", lost->ranks[0].value));
      }
      if (const auto* part = std::get_if<PartChanged>(&event)) {
        told(fmt::format("{} at {}", part_name(part->part), part->to.rate));
      }
    }
  };
}

TEST(Standing, ASilentRankIsSuspectedForHalfOfTheTimeoutBeforeItIsLost) {
  const Ran ran = run({"policies=[]", "faults=[{at_time: 1 s, rank: 2, stop: true}]",
                       "survival.heartbeat_timeout=800 ms"},
                      tell_losses);
  EXPECT_THAT(ran.lines, ElementsAre("1400 ms: 2 suspected", "1800 ms: 2 lost"));
  EXPECT_EQ(ran.report.steps_completed(), 30u);
}

TEST(Standing, APartThatNoRankUsesAnyMoreIsToldToo) {
  const Ran ran = run({"policies=[]", "cluster.nodes=2", "cluster.node.gpus_per_node=2",
                       "cluster.node.nics_per_node=2", "cluster.fabric.nodes_per_unit=2",
                       "survival.on_loss=go-on",
                       "faults=[{at_step: 1, node: 1, down: true}, {at_step: 15, gpu: 2, down: "
                       "true}]"},
                      tell_losses);
  EXPECT_EQ(ran.report.steps_completed(), 30u);
  EXPECT_THAT(ran.lines, ElementsAre(HasSubstr("node 1"), HasSubstr("2 suspected"),
                                     HasSubstr("2 lost"), HasSubstr("gpu 2")));
}

TEST(Standing, PartsAreToldAtTheirInstantsAlsoWhileTheJobWaitsForALink) {
  const Ran ran = run({"policies=[]", "cluster.nodes=8", "cluster.node.gpus_per_node=1",
                       "cluster.node.nics_per_node=1", "cluster.fabric.nodes_per_unit=8",
                       "faults=[{at_time: 1 s, rank: 1, link_down: true, for: 4 s}, "
                       "{at_time: 2 s, gpu: 6, rate: 0.5, for: 5 s}]"},
                      tell_losses);
  EXPECT_THAT(ran.lines, ElementsAre("1000 ms: nic 1 at 0", "2000 ms: gpu 6 at 0.5",
                                     "5000 ms: nic 1 at 1", "7000 ms: gpu 6 at 1"));
}

TEST(Standing, AShrinkDecidedSecondsAfterTheLossIsWhatHappens) {
  const Ran ran = run(kKill, [](std::vector<std::string>& lines) {
    return [&lines](const Observation& seen, DecisionList& decisions) {
      const JobInfo* job = seen.jobs.find({0});
      for (const Event& event : seen.events) {
        if (std::holds_alternative<RanksLost>(event)) {
          decisions.wake(seen.now + 2 * kNanosPerSecond);
        }
        if (std::holds_alternative<Tick>(event) && job != nullptr && !job->lost.empty()) {
          const Standing left = without_lost(*job);
          decisions.add(Assign{{0}, left.gpus, left.layout, StateFrom::peer}, "after some thought");
        }
        if (const auto* started = std::get_if<JobStarted>(&event)) {
          lines.push_back(fmt::format("{}", started->where.gpus.size()));
        }
      }
    };
  });
  EXPECT_THAT(ran.lines, ElementsAre("4", "3"));
  EXPECT_EQ(ran.report.steps_completed(), 30u);
  EXPECT_FALSE(ran.report.failures(0).has_replaced_s());
}

/// Returns the duration of 30 steps without faults if each call of the policy takes `time`.
double elapsed_with(const std::string& time, const Ways& ways) {
  return run({"policies=[]", "faults=[]", "run.policy_time=" + time},
             [](std::vector<std::string>&) { return [](const Observation&, DecisionList&) {}; },
             ways)
      .report.elapsed_s();
}

/// In full detail the policy is called after each step, but a call during a rest takes no time.
TEST(Standing, AStepThatWouldBeginWaitsForTheAnswerOfThePolicies) {
  for (const bool full_detail : {false, true}) {
    const Ways ways{.full_detail = full_detail};
    // The only call before the end that is not one of a rest is that of the begin.
    EXPECT_NEAR(elapsed_with("2 s", ways), elapsed_with("0 s", ways) + 2, 1e-6) << full_detail;
  }
}

TEST(Standing, EachCallOfAPolicyThatDoesNotRestDelaysTheStepThatWouldBegin) {
  for (const bool full_detail : {false, true}) {
    const Ways ways{.rests = false, .full_detail = full_detail};
    EXPECT_NEAR(elapsed_with("100 ms", ways), elapsed_with("0 s", ways) + 30 * 0.1, 1e-6)
        << full_detail;
  }
}

TEST(Standing, InShadowModeNoStepWaitsForThePolicies) {
  const Ways ways{.rests = false, .mode = "shadow"};
  EXPECT_NEAR(elapsed_with("100 ms", ways), elapsed_with("0 s", ways), 1e-6);
}

TEST(Standing, AHeldJobWaitsForItsAssignment) {
  const Ran ran = run({"policies=[]", "survival={on_loss: hold}"},
                      [](std::vector<std::string>& lines) {
    return [&lines](const Observation& seen, DecisionList& decisions) {
      const JobInfo* job = seen.jobs.find({0});
      for (const Event& event : seen.events) {
        if (std::holds_alternative<JobHeld>(event)) {
          lines.push_back(fmt::format("held {:.2f}", to_seconds(seen.now)));
          decisions.wake(seen.now + 3 * kNanosPerSecond);
        }
        if (std::holds_alternative<Tick>(event) && job != nullptr) {
          lines.push_back(fmt::format("step {}", job->step));
          decisions.add(Assign{{0}, job->gpus, job->layout, StateFrom::peer}, "as it was");
        }
        if (std::holds_alternative<StepsDone>(event) && job != nullptr &&
            job->phase == JobPhase::held) {
          lines.push_back("a held job works");
        }
      }
    };
  });
  ASSERT_EQ(ran.lines.size(), 2u) << ::testing::PrintToString(ran.lines);
  EXPECT_EQ(ran.lines[1], "step 5");
  EXPECT_EQ(ran.report.steps_completed(), 30u);
  EXPECT_GT(ran.report.failures(0).resumed_s(), ran.report.failures(0).time_s() + 3);
}

TEST(Standing, AHeldJobThatNobodyAssignsEndsTheRun) {
  const Ran ran = run({"policies=[]", "survival={on_loss: hold}"}, [](std::vector<std::string>&) {
    return [](const Observation&, DecisionList&) {};
  });
  EXPECT_EQ(ran.report.steps_completed(), 5u);
}

TEST(Standing, AReplacementWhoseGpuIsLostMeanwhileIsVoidAndTheOthersGoOn) {
  const Ran ran = run({"policies=[]", "survival={on_loss: replace, replacement: 1 h}",
                       "faults=[{at_step: 8, rank: 1, kill: true},"
                       " {at_step: 10, gpu: 1, down: true}]"},
                      [](std::vector<std::string>& lines) {
    return [&lines](const Observation& seen, DecisionList&) {
      const JobInfo* job = seen.jobs.find({0});
      for (const Event& event : seen.events) {
        const bool lost = std::holds_alternative<RanksLost>(event);
        const bool changed = std::holds_alternative<PartChanged>(event);
        if (!lost && !changed) continue;
        lines.push_back(fmt::format("{} {}", lost ? "rank" : "part",
                                    job->next ? "replaced" : "not replaced"));
      }
    };
  });
  EXPECT_THAT(ran.lines, ElementsAre("rank replaced", "part not replaced"));
  EXPECT_EQ(ran.report.steps_completed(), 30u);
  EXPECT_EQ(ran.report.unfinished(), "");
}

TEST(Standing, TwoKillsAtOneStepAreOneLoss) {
  const Ran ran = run({"policies=[]", "faults=[{at_step: 5, rank: 1, kill: true}, "
                                      "{at_step: 5, rank: 2, kill: true}]"},
                      [](std::vector<std::string>& lines) {
    return [&lines](const Observation& seen, DecisionList&) {
      for (const Event& event : seen.events) {
        const auto* lost = std::get_if<RanksLost>(&event);
        if (lost == nullptr) continue;
        lines.push_back(fmt::format("{} ranks, epoch {}", lost->ranks.size(), lost->epoch.value));
      }
    };
  });
  EXPECT_THAT(ran.lines, ElementsAre("2 ranks, epoch 2"));
  EXPECT_EQ(ran.report.failures_size(), 2);
}

TEST(Standing, WhoIsNotAtWorkWhenOthersAreStruckIsStruckNeitherThenNorLater) {
  const Ran ran = run({"faults=[{at_step: 3, rank: 1, kill: true}, {at_step: 6, rank: 1, kill: "
                       "true}, {at_step: 6, rank: 2, kill: true}]", "policies=[]"},
                      [](std::vector<std::string>& lines) {
    return [&lines](const Observation& seen, DecisionList& decisions) {
      const JobInfo* job = seen.jobs.find({0});
      for (const Event& event : seen.events) {
        const auto* lost = std::get_if<RanksLost>(&event);
        if (lost == nullptr) continue;
        lines.push_back(fmt::format("{}", lost->ranks.size() == 1 ? lost->ranks[0].value : 9));
        if (job->lost.size() < 2) continue;
        decisions.add(Assign{{0}, job->gpus, job->layout, StateFrom::peer}, "both again");
      }
    };
  });
  EXPECT_THAT(ran.lines, ElementsAre("1", "2"));
  EXPECT_EQ(ran.report.steps_completed(), 30u);
}

TEST(Standing, WhatIsDecidedWithAMoveIsJudgedBeforeItHasComeTrue) {
  const Ran ran = run(kCalm, [](std::vector<std::string>& lines) {
    return [&lines](const Observation& seen, DecisionList& decisions) {
      bool woken = false;
      for (const Event& event : seen.events) {
        woken = woken || std::holds_alternative<Tick>(event);
        const auto* told = std::get_if<Decided>(&event);
        if (told != nullptr) lines.push_back(told->reason.empty() ? "applied" : told->reason);
        if (std::holds_alternative<JobStarted>(event)) lines.emplace_back("started");
      }
      const JobInfo* job = seen.jobs.find({0});
      if (seen.now == 0) decisions.wake(kNanosPerSecond);
      if (!woken) return;
      ParallelLayout three = job->layout;
      three.data = 3;
      decisions.add(Assign{{0}, without(*job, 1), three, StateFrom::peer}, "one fewer");
      decisions.add(Configure{{0}, OnLoss{}}, "for the ranks that there are").if_epoch = job->epoch;
    };
  });
  EXPECT_THAT(ran.lines, ElementsAre("started", "applied", "applied", "started"));
}

TEST(Standing, CheckpointsAreSavedAsPlannedAndWhenAskedFor) {
  const Ran ran = run({"faults=[]", "policies=[]",
                       "checkpoints={folder: here, every: 10, stall: 100 ms, write: 50 ms}"},
                      [](std::vector<std::string>& lines) {
    return [&lines](const Observation& seen, DecisionList& decisions) {
      for (const Event& event : seen.events) {
        if (const auto* started = std::get_if<JobStarted>(&event); started != nullptr) {
          decisions.add(Save{{0}, Tier::local_disk}, "now").at_step = 4;
        }
        const auto* saved = std::get_if<SaveDone>(&event);
        if (saved == nullptr) continue;
        lines.push_back(fmt::format("{} {} {}", saved->step, to_seconds(saved->stalled),
                                    to_seconds(saved->took)));
      }
    };
  });
  EXPECT_THAT(ran.lines, ElementsAre("5 0.1 0.15", "10 0.1 0.15", "20 0.1 0.15"));
  EXPECT_EQ(ran.report.steps_completed(), 30u);
}

TEST(Standing, ACheckpointThatIsThereWithTheLastStepIsToldBeforeTheEnd) {
  const Ran ran = run({"faults=[]", "policies=[]", "run.steps=20",
                       "checkpoints={folder: here, every: 10}"},
                      [](std::vector<std::string>& lines) {
    return [&lines](const Observation& seen, DecisionList&) {
      for (const Event& event : seen.events) {
        const auto* saved = std::get_if<SaveDone>(&event);
        if (saved != nullptr) lines.push_back(fmt::format("saved {}", saved->step));
        if (std::holds_alternative<JobDone>(event)) lines.emplace_back("done");
      }
    };
  });
  EXPECT_THAT(ran.lines, ElementsAre("saved 10", "saved 20", "done"));
  EXPECT_EQ(ran.report.steps_completed(), 20u);
}

TEST(Standing, ARestartGivesUpTheCheckpointThatIsBeingWritten) {
  const Ran ran = run({"faults=[]", "policies=[]", "survival.restart=2 s",
                       "checkpoints={folder: here, every: 10, write: 500 ms}"},
                      [](std::vector<std::string>& lines) {
    return [&lines, held = Nanos{0}](const Observation& seen, DecisionList& decisions) mutable {
      for (const Event& event : seen.events) {
        if (const auto* saved = std::get_if<SaveDone>(&event)) {
          lines.push_back(fmt::format("saved {} {}", saved->step, saved->durable));
          // The checkpoint of step 20 is not durable yet then.
          if (held > 0 || saved->step != 10) continue;
          const JobInfo& job = seen.jobs[{0}];
          decisions.add(Assign{{0}, job.gpus, job.layout, StateFrom::checkpoint}, "again")
              .at_step = 21;
        }
        if (std::holds_alternative<JobHeld>(event)) {
          lines.emplace_back("held");
          held = seen.now;
        }
        const auto* started = std::get_if<JobStarted>(&event);
        if (started == nullptr || held == 0) continue;
        lines.push_back(fmt::format("from {} after {:.0f} s", started->from,
                                    to_seconds(seen.now - held)));
      }
    };
  });
  EXPECT_THAT(ran.lines, ElementsAre("saved 10 true", "saved 20 false", "held",
                                     "from 10 after 2 s", "saved 20 true"));
  EXPECT_EQ(ran.report.steps_completed(), 30u);
  EXPECT_EQ(ran.report.steps_rolled_back(), 11u);
}

TEST(Standing, NonsenseIsRefusedWithItsReason) {
  const Ran ran = run(kCalm, [](std::vector<std::string>& lines) {
    return [&lines, asked = false](const Observation& seen, DecisionList& decisions) mutable {
      for (const Event& event : seen.events) {
        if (const auto* outcome = std::get_if<Decided>(&event)) lines.push_back(outcome->reason);
      }
      const JobInfo* job = seen.jobs.find({0});
      if (std::exchange(asked, true) || job == nullptr) return;
      decisions.add(Assign{{0}, job->gpus, job->layout, StateFrom::peer}, "where it stands");
      decisions.add(Assign{{0}, {{0}, {1}, {2}, {999}}, job->layout, StateFrom::peer}, "a spare");
      decisions.add(Assign{{7}, job->gpus, job->layout, StateFrom::peer}, "another job");
      decisions.add(Save{{0}, Tier::local_disk}, "no folder");
    };
  });
  ASSERT_EQ(ran.lines.size(), 4u);
  EXPECT_THAT(ran.lines[0], HasSubstr("is placed there already"));
  EXPECT_THAT(ran.lines[1], HasSubstr("no GPU 999"));
  EXPECT_THAT(ran.lines[2], HasSubstr("no job 7"));
  EXPECT_THAT(ran.lines[3], HasSubstr("folder"));
}

/// Reports of parts, each with its instant in tenths of a second.
Ran with_removals(const std::vector<std::string>& overrides) {
  return run(overrides, [](std::vector<std::string>& lines) {
    return [&lines](const Observation& seen, DecisionList&) {
      for (const Event& event : seen.events) {
        const auto* changed = std::get_if<PartChanged>(&event);
        if (changed == nullptr) continue;
        const char* const what = changed->to.health == Health::lost ? "lost"
                                 : changed->to.removal              ? "announced"
                                                                    : "well";
        lines.push_back(fmt::format("{} {:.1f}", what, to_seconds(seen.now)));
      }
    };
  });
}

TEST(Standing, AReturnedPartIsLostUntilItsTestIsOver) {
  const std::vector<std::string> spare{"policies=[]", "cluster.nodes=2", "run.steps=60"};
  std::vector<std::string> once = spare, twice = spare;
  once.emplace_back(
      "faults=[{at_time: 2 s, gpu: 6, down: true, notice: 1 s, for: 1 s, test: 2 s}]");
  twice.emplace_back(
      "faults=[{at_time: 2 s, gpu: 6, down: true, for: 1 s, test: 2 s}, "
      "{at_time: 4 s, gpu: 6, down: true, for: 1 s}]");
  EXPECT_THAT(with_removals(once).lines, ElementsAre("announced 1.0", "lost 2.0", "well 5.0"));
  EXPECT_THAT(with_removals(twice).lines, ElementsAre("lost 2.0", "well 7.0"))
      << "a loss during the test ends the test";
}

}  // namespace
}  // namespace orrery::sim
