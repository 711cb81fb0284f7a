#include "policies/seam/drive.hpp"

#include <gtest/gtest.h>

#include "tests/policies/scripted.hpp"
#include "tests/policies/seam/model_backend.hpp"

namespace orrery {
namespace {

using toy::failure_of;
using toy::run;
using toy::Scripted;
using toy::Witness;

TEST(Drive, OnePolicySteersTheToyWorld) {
  const Cluster cluster = toy::cluster();
  Witness backend(cluster);
  toy::ShiftOnce policy;
  EXPECT_EQ(run(policy, backend), 1u);
  EXPECT_EQ(backend.world().jobs()[{0}].step, 40u);
  EXPECT_EQ(backend.world().jobs()[{0}].shares(), (std::vector<std::uint32_t>{12, 12, 4, 12}));
  EXPECT_EQ(backend.begun.tick, toy::kTick);
  EXPECT_EQ(backend.ids, std::vector<DecisionId>{0});
  EXPECT_GT(backend.rests, 40);
}

TEST(Drive, WhatTheBackendLacksIsNamed) {
  const Cluster cluster = toy::cluster();
  class Poor : public toy::ToyBackend {
   public:
    using ToyBackend::ToyBackend;
    Capabilities capabilities() const override {
      return {Kinds<Action>::of<Configure>(), Kinds<Setting>::of<Shares>()};
    }
  } backend(cluster);
  Scripted policy({Kinds<Action>::all(), Kinds<Setting>::of<Shares, CodecRules, OnLoss>(), 0}, {});
  EXPECT_EQ(failure_of(policy, backend),
            "the policies need features that this run does not offer: the actions Assign, Save and "
            "the settings CodecRules, OnLoss");
  EXPECT_EQ(policy.calls, 0);
  Scripted odd({Kinds<Action>::from_bits(1u << 9), {}, 0}, {});
  EXPECT_EQ(failure_of(odd, backend),
            "the policies need features that this run does not offer: the actions (unknown)");
}

/// Backend that continues a run: another process made three decisions before its fifth observation.
class Continued : public toy::Witness {
 public:
  using Witness::Witness;
  std::optional<Observation> next() override {
    ++calls_;
    return Witness::next();
  }
  DecisionId decided_before() const override { return calls_ < 5 ? 0 : 3; }

 private:
  int calls_ = 0;
};

TEST(Drive, ANewDecisionHasAnIdAboveThoseThatTheBackendKnows) {
  const Cluster cluster = toy::cluster();
  /// Decides in its first and its fifth call.
  class Twice : public Policy {
   public:
    Needs needs() const override { return {{}, {}, toy::kTick}; }
    void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
    void observe(Context&, const Observation&, DecisionList& decisions) override {
      const int call = ++calls_;
      if (call == 1 || call == 5) decisions.add(Save{{0}}, "now");
    }

   private:
    int calls_ = 0;
  } policy;
  Continued backend(cluster);
  EXPECT_EQ(run(policy, backend), 4u);
  EXPECT_EQ(backend.ids, (std::vector<DecisionId>{0, 3}));
}

/// A world whose clock stands still.
class Frozen : public toy::ToyBackend {
 public:
  using ToyBackend::ToyBackend;
  std::optional<Observation> next() override {
    auto seen = ToyBackend::next();
    if (seen) seen->now = 0;
    return seen;
  }
};

/// Decides in every call.
class Restless : public Policy {
 public:
  Needs needs() const override { return {{}, {}, toy::kTick}; }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
  void observe(Context&, const Observation&, DecisionList& decisions) override {
    decisions.add(Save{{0}}, "again");
  }
};

TEST(Drive, DecidingWithoutEndAtOneInstantEndsTheRun) {
  const Cluster cluster = toy::cluster();
  Rng rng(1);
  Context context{rng, {}};
  Restless policy;
  Frozen frozen(cluster, 1'000'000);
  try {
    drive(policy, frozen, context);
    FAIL() << "it ended by itself";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_NE(error.message().find("1000 times in a row at 0 s"), std::string::npos)
        << error.message();
  }
  toy::ToyBackend moving(cluster, 400);
  EXPECT_GT(drive(policy, moving, context), 1000u);
}

TEST(Drive, WhoSetsALaterStepAtEveryCallIsToldWhyThatHasNoEnd) {
  /// The policy compares the state with its target; a requested change is not visible yet.
  class Forgetful : public Restless {
    void observe(Context&, const Observation& seen, DecisionList& decisions) override {
      const JobInfo& job = seen.jobs[{0}];
      const Shares wanted{{12, 12, 4, 12}};
      if (job.now.get<Shares>() == wanted) return;
      decisions.add(Configure{{0}, wanted}, "less for rank 2").at_step = job.step + 1;
    }
  } policy;
  const Cluster cluster = toy::cluster();
  test::ModelBackend backend(cluster, {});
  EXPECT_EQ(failure_of(policy, backend),
            "the policies decide without end: 1000 times in a row at 0 s; a decision for a later "
            "step is reported as applied at once but changes the job only from that step on: "
            "remember the decision until then");
}

TEST(Drive, WakingAtOnceWithoutEndEndsTheRunToo) {
  class Sleepless : public Restless {
    void observe(Context&, const Observation& seen, DecisionList& decisions) override {
      decisions.wake(seen.now);
    }
  } policy;
  const Cluster cluster = toy::cluster();
  toy::ToyBackend backend(cluster);
  EXPECT_EQ(failure_of(policy, backend),
            "the policies decide without end: 1000 times in a row at 0 s");
}

TEST(Drive, AWakeIsATickAtItsInstantAndDecidesNothing) {
  class Sleeper : public Scripted {
   public:
    Sleeper() : Scripted({}, {}) {}
    void observe(Context& context, const Observation& seen, DecisionList& decisions) override {
      Scripted::observe(context, seen, decisions);
      instants.push_back(seen.now);
      if (seen.sequence == 0) decisions.wake(30'000'000), decisions.wake(30'000'000);
    }
    std::vector<Nanos> instants;
  } policy;
  const Cluster cluster = toy::cluster();
  toy::ToyBackend backend(cluster, 2);
  EXPECT_EQ(run(policy, backend), 0u);
  EXPECT_EQ(policy.instants, (std::vector<Nanos>{0, 30'000'000, 100'000'000, 200'000'000}));
}

}  // namespace
}  // namespace orrery
