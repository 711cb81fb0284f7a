#include "policies/run/futures.hpp"

#include <filesystem>

#include <gtest/gtest.h>

#include "policies/run/registry.hpp"
#include "policies/run/replay.hpp"
#include "policies/run/worker.hpp"
#include "tests/policies/temp_dir.hpp"
#include "tests/policies/toy_log.hpp"

namespace orrery {
namespace {

const std::string kWorker = ORRERY_BINARY_DIR "/tests/toy_worker";
constexpr Nanos kAt = 1'000'000'000;

RunRequest request(std::uint32_t count, const std::string& fabric = "") {
  RunRequest toy;
  *toy.mutable_scenario() = toy::scenario_with("predictive-rebalance");
  toy.set_fabric(fabric);
  toy.mutable_futures()->set_count(count);
  toy.mutable_futures()->set_at(kAt);
  return toy;
}

Report plain(Report report) {
  report.clear_host();
  return report;
}

TEST(Futures, AllComeInOrderHoweverManyRunAtOnce) {
  for (const std::uint32_t at_once : {1u, 3u, 20u}) {
    RunRequest order = request(7);
    order.mutable_futures()->set_at_once(at_once);
    const FuturesReport all = run_futures(kWorker, order);
    ASSERT_EQ(all.futures_size(), 7);
    for (int i = 0; i < 7; ++i) {
      EXPECT_EQ(all.futures(i).future(), static_cast<std::uint32_t>(i));
      EXPECT_EQ(all.futures(i).report().steps_completed(), 40u);
      EXPECT_EQ(all.futures(i).steps_ahead(), 40 - all.begun().steps_completed());
    }
    EXPECT_GT(all.begun().steps_completed(), 2u);
    EXPECT_LT(all.begun().steps_completed(), 40u);
  }
}

TEST(Futures, TheFirstIsTheRunAsItGoesOnAnyway) {
  const toy::TempDir dir;
  RunRequest forked = request(4), alone = request(4);
  forked.set_record(dir / "forked");
  alone.set_record(dir / "alone");
  alone.clear_futures();
  const FuturesReport all = run_futures(kWorker, forked);
  const Report expected = plain(run_in_worker(kWorker, alone));
  EXPECT_EQ(plain(all.futures(0).report()).SerializeAsString(), expected.SerializeAsString());
  EXPECT_EQ(toy::read_file(dir / "forked"), toy::read_file(dir / "alone"));
  EXPECT_EQ(replay_log(dir / "forked", {}).first_difference, "");
}

TEST(Futures, OneThatDiesIsItsOwnFailure) {
  const FuturesReport all = run_futures(kWorker, request(3, "futures die"));
  ASSERT_EQ(all.futures_size(), 3);
  EXPECT_EQ(all.futures(0).report().steps_completed(), 40u);
  for (const int i : {1, 2}) {
    EXPECT_EQ(all.futures(i).failure().message(),
              "it ended before it reported: killed by signal 9 (Killed)");
    EXPECT_FALSE(all.futures(i).has_steps_ahead());
  }
}

TEST(Futures, OneThatFailsSaysWhy) {
  const FuturesReport all = run_futures(kWorker, request(2, "futures break"));
  EXPECT_TRUE(all.futures(0).has_report());
  EXPECT_EQ(all.futures(1).failure().message(), "something broke");
}

TEST(Futures, NoneBeginWhereTheRunIsOver) {
  RunRequest late = request(3);
  late.mutable_futures()->set_at(1'000 * kNanosPerSecond);
  try {
    run_futures(kWorker, late);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_NE(error.message().find("no futures begin at 1000 s"), std::string::npos)
        << error.message();
  }
}

TEST(Futures, APolicyOfAnotherProcessHasNone) {
  RunRequest outside = request(3);
  outside.set_policy_outside(true);
  EXPECT_THROW(run_futures(kWorker, outside), Error);
}

TEST(Futures, EachBeginsOnceUnderEachChoice) {
  RunRequest order = request(3);
  for (const char* name : {"predictive-rebalance", "static"}) {
    order.mutable_futures()->add_choices()->add_policies()->set_name(name);
  }
  const FuturesReport all = run_futures(kWorker, order);
  ASSERT_EQ(all.futures_size(), 6);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(all.futures(i).future(), static_cast<std::uint32_t>(i / 2));
    EXPECT_EQ(all.futures(i).choice(), static_cast<std::uint32_t>(i % 2));
  }
}

TEST(Futures, ALogIsOfTheRunAsItGoesOn) {
  const toy::TempDir dir;
  RunRequest order = request(2);
  order.set_record(dir / "log");
  order.mutable_futures()->add_choices()->add_policies()->set_name("static");
  EXPECT_THROW(run_futures(kWorker, order), Error);
  order.mutable_futures()->add_choices();
  const FuturesReport all = run_futures(kWorker, order);
  RunRequest alone = request(2);
  alone.clear_futures();
  EXPECT_EQ(plain(all.futures(1).report()).SerializeAsString(),
            plain(run_in_worker(kWorker, alone)).SerializeAsString());
  EXPECT_EQ(replay_log(dir / "log", {}).first_difference, "");
}

TEST(Futures, SeedsAreTheRunsAndTheNumbers) {
  EXPECT_FALSE((Future{0, nullptr}.seed(1)));
  EXPECT_NE((Future{1, nullptr}.seed(1)), (Future{2, nullptr}.seed(1)));
  EXPECT_NE((Future{1, nullptr}.seed(1)), (Future{1, nullptr}.seed(2)));
  const FutureChoice choice;
  EXPECT_EQ((Future{1, nullptr}.seed(1)), (Future{1, &choice}.seed(1)));
}

// ---- policies that succeed others ---------------------------------------------------------------

/// Counts its calls, and saves the count.
class Counting : public Policy {
 public:
  Needs needs() const override { return {}; }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
  void observe(Context&, const Observation&, DecisionList&) override { ++calls; }
  void save(Archive& archive) const override { archive = std::to_string(calls); }
  void load(const Archive& archive) override { calls = std::stoi(archive); }
  int calls = 0;
};

std::unique_ptr<PolicyStack> stack_of(const std::vector<std::string>& names,
                                      std::vector<Counting*>& policies) {
  std::vector<PolicyStack::Member> members;
  for (const std::string& name : names) {
    auto policy = std::make_unique<Counting>();
    policies.push_back(policy.get());
    members.push_back({.name = name, .policy = std::move(policy), .parameters = nullptr});
  }
  return std::make_unique<PolicyStack>(std::move(members));
}

TEST(Succession, APolicyOfTheSameNameGoesOnWithItsState) {
  const Cluster cluster = toy::cluster();
  World world(cluster);
  toy::HandMade samples;
  Rng rng(1);
  Context context{rng, {}};
  std::vector<Counting*> first, heirs;
  const auto before = stack_of({"a", "b"}, first);
  Succession policy(*before, *before);
  policy.start(context, cluster, nullptr);
  DecisionList decisions;
  const auto call = [&] {
    decisions.clear();
    policy.observe(context, toy::seen_of(world, {}, samples), decisions);
  };
  call(), call(), call();
  policy.replace_policies(stack_of({"b", "c"}, heirs),
                          {Decision{.what = Save{}, .why = "as given"}});
  EXPECT_EQ(heirs[0]->calls, 0) << "they begin with the next observation";
  call();
  ASSERT_EQ(decisions.items().size(), 1u);
  EXPECT_EQ(decisions.items()[0].why, "as given");
  call();
  EXPECT_TRUE(decisions.items().empty());
  EXPECT_EQ(first[0]->calls, 3);
  EXPECT_EQ(heirs[0]->calls, 5);
  EXPECT_EQ(heirs[1]->calls, 2);
  std::vector<Counting*> last;
  policy.replace_policies(stack_of({"c"}, last), {});
  call();
  EXPECT_EQ(last[0]->calls, 3) << "heirs have heirs";
}

}  // namespace
}  // namespace orrery
