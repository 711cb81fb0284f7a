#include "policies/handover/fallback.hpp"

#include <stdexcept>

#include <gtest/gtest.h>

#include "policies/seam/drive.hpp"
#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

/// Shifts at step 12 as the toy's policy does, and fails at a step, after having decided.
class Failing : public toy::ShiftOnce {
 public:
  explicit Failing(Step at) : at_(at) {}
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override {
    ++calls;
    ShiftOnce::observe(context, seen, decisions);
    if (seen.jobs[{0}].step < at_) return;
    decisions.add(Configure{{0}, Shares{{40, 0, 0, 0}}}, "nonsense");
    throw std::runtime_error("index out of range");
  }
  int calls = 0;

 private:
  Step at_;
};

/// Answers every observation with one more decision.
class Endless : public Policy {
 public:
  Needs needs() const override { return toy::setting<Shares>(); }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
  void observe(Context&, const Observation&, DecisionList& decisions) override {
    decisions.add(Configure{{0}, Shares{{10, 10, 10, 10}}}, "again");
  }
};

void drive_with(FallbackPolicy& policy, toy::ToyBackend& backend) {
  Rng rng(1);
  Context context{rng, {}};
  drive(policy, backend, context);
}

TEST(Fallback, WhatThePolicyDidBeforeStaysAndTheRunGoesOn) {
  const Cluster cluster = toy::cluster();
  Failing inner(20);
  FallbackPolicy policy(inner);
  toy::ToyBackend backend(cluster);
  drive_with(policy, backend);
  EXPECT_EQ(backend.world().jobs()[{0}].step, 40u);
  EXPECT_EQ(backend.world().jobs()[{0}].shares(), (std::vector<std::uint32_t>{12, 12, 4, 12}));
  EXPECT_EQ(policy.failure(), "index out of range");
  EXPECT_GT(policy.failed_at(), 0);
  const int calls = inner.calls;
  Archive archive;
  policy.save(archive);
  EXPECT_NE(archive.find("index out of range"), Archive::npos);
  FallbackPolicy restored(inner);
  restored.load(archive);
  EXPECT_EQ(restored.failure(), "index out of range");
  EXPECT_EQ(inner.calls, calls);  // it is not asked again
}

TEST(Fallback, APolicyThatDoesNotFailIsLeftAlone) {
  const Cluster cluster = toy::cluster();
  toy::ShiftOnce inner;
  FallbackPolicy policy(inner);
  toy::ToyBackend backend(cluster);
  drive_with(policy, backend);
  EXPECT_EQ(policy.failure(), "");
  Archive own, of_inner;
  policy.save(own);
  inner.save(of_inner);
  EXPECT_EQ(own, of_inner);
}

TEST(Fallback, DecidingWithoutEndIsAFailureToo) {
  // The toy answers within the step: the guard needs a backend that answers at once.
  const Cluster cluster = toy::cluster();
  class Prompt : public toy::ToyBackend {
   public:
    using ToyBackend::ToyBackend;
    std::optional<Observation> next() override {
      if (again_) return Observation(*kept_);
      auto seen = ToyBackend::next();
      kept_.reset();
      if (seen) kept_.emplace(*seen);
      return seen;
    }
    void apply(const DecisionList& decisions) override { again_ = !decisions.items().empty(); }

   private:
    bool again_ = false;
    std::optional<Observation> kept_;
  } backend(cluster);
  Endless inner;
  FallbackPolicy policy(inner);
  drive_with(policy, backend);
  EXPECT_NE(policy.failure().find("without end"), std::string::npos) << policy.failure();
  EXPECT_EQ(backend.world().jobs()[{0}].step, 40u);
}

TEST(Fallback, ACallThatWasGivenUpBeforeIsNotForwarded) {
  const Cluster cluster = toy::cluster();
  Failing inner(1000);
  FallbackPolicy policy(inner, false);
  int asked = 0;
  policy.on_replay([&] { return ++asked == 5 ? std::string("no answer") : std::string(); });
  toy::ToyBackend backend(cluster);
  drive_with(policy, backend);
  EXPECT_EQ(inner.calls, 4);
  EXPECT_EQ(policy.failure(), "no answer");
  EXPECT_EQ(backend.world().jobs()[{0}].step, 40u);
}

TEST(Fallback, WithoutFallBackOnlyTheEndOfTheRunIsNoError) {
  struct GivenUp : toy::ShiftOnce {
    explicit GivenUp(bool run_ends) : ends(run_ends) {}
    void observe(Context&, const Observation&, DecisionList&) override {
      throw PolicyGivenUp("no answer", ends);
    }
    bool ends;
  };
  const Cluster cluster = toy::cluster();
  for (const bool ends : {false, true}) {
    GivenUp inner(ends);
    FallbackPolicy policy(inner, false);
    toy::ToyBackend backend(cluster);
    if (ends) {
      drive_with(policy, backend);
    } else {
      EXPECT_THROW(drive_with(policy, backend), PolicyGivenUp);
    }
    EXPECT_EQ(policy.failure(), ends ? "no answer" : "");
  }
}

}  // namespace
}  // namespace orrery
