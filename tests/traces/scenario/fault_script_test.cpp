#include "traces/scenario/fault_script.hpp"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/error.hpp"
#include "core/random.hpp"
#include "tests/traces/sample_cluster.hpp"

namespace orrery {
namespace {

const Cluster kCluster = testing::sample_cluster(4);  // 32 GPUs and NICs

Fault& at_step(Scenario& scenario, Step step) {
  Fault& fault = *scenario.add_faults();
  fault.set_at_step(step);
  return fault;
}

Fault& at_time(Scenario& scenario, Nanos instant) {
  Fault& fault = *scenario.add_faults();
  fault.set_at_time(instant);
  return fault;
}

// ---- the script, read line by line at every question ------------------------------------------

class Naive {
 public:
  Naive(const Scenario& scenario, const FaultScript& script)
      : scenario_(scenario), script_(script) {}

  static bool begun(const Fault& fault, Moment at) {
    return fault.has_at_step() ? at.step >= static_cast<std::int64_t>(fault.at_step())
                               : at.now >= fault.at_time();
  }
  static Nanos end_time(const Fault& fault) {
    if (fault.has_until_time()) return fault.until_time();
    return fault.has_for_() ? fault.at_time() + fault.for_() : kNever;
  }
  static bool holds(const Fault& fault, Moment at) {
    const bool over = fault.has_until_step()
                          ? at.step >= static_cast<std::int64_t>(fault.until_step())
                          : at.now >= end_time(fault);
    return begun(fault, at) && !over;
  }

  std::map<FaultTarget, Condition> conditions(Moment at) const {
    std::map<FaultTarget, Condition> all;
    for (int i = 0; i < scenario_.faults_size(); ++i) {
      const Fault& fault = scenario_.faults(i);
      if (!holds(fault, at) || fault.kill() || fault.stop()) continue;
      for (const FaultTarget& target : script_.targets(static_cast<std::uint32_t>(i))) {
        Condition& condition = all[target];
        if (fault.has_slow()) condition.slow *= fault.slow();
        if (fault.has_rate()) condition.slow *= 1 / fault.rate();
        if (fault.has_ramp()) condition.slow *= top(fault, at.step);
        if (fault.has_link_slow()) condition.link_slow *= fault.link_slow();
        condition.link_down |= fault.link_down();
        condition.down |= fault.down();
      }
    }
    std::erase_if(all, [](const auto& entry) { return entry.second == Condition{}; });
    return all;
  }
  static double top(const Fault& fault, std::int64_t step) {
    const double share = static_cast<double>(step - static_cast<std::int64_t>(fault.at_step())) /
                         static_cast<double>(fault.ramp().steps());
    return 1 + (fault.ramp().slow() - 1) * std::min(1.0, share);
  }

  bool ends_ranks(const Fault& fault) const {
    return fault.kill() || fault.stop() || (fault.down() && (fault.has_gpu() || fault.has_nodes()));
  }
  /// Faults of `instant`, or of the step that begins at it.
  std::vector<std::uint32_t> striking(std::optional<Step> step, Nanos instant) const {
    std::vector<std::uint32_t> faults;
    for (int i = 0; i < scenario_.faults_size(); ++i) {
      const Fault& fault = scenario_.faults(i);
      if (!ends_ranks(fault)) continue;
      const bool now = fault.has_at_step() ? step == fault.at_step() : instant == fault.at_time();
      if (now) faults.push_back(static_cast<std::uint32_t>(i));
    }
    return faults;
  }
  bool changes(Nanos instant) const {
    return std::ranges::any_of(scenario_.faults(), [&](const Fault& fault) {
      return (fault.has_at_time() && fault.at_time() == instant) || end_time(fault) == instant;
    });
  }

 private:
  const Scenario& scenario_;
  const FaultScript& script_;
};

constexpr std::uint64_t kSteps = 12;  // steps and instants: few, so that many coincide

Fault random_fault(Rng& rng) {
  Fault fault;
  const auto begin = rng.below(kSteps);
  const bool steps = rng.below(2) == 0;
  steps ? fault.set_at_step(begin) : fault.set_at_time(static_cast<Nanos>(begin));
  const bool part = rng.below(3) == 0;
  if (part) {
    switch (rng.below(3)) {
      case 0: fault.set_gpu(static_cast<std::uint32_t>(rng.below(3))); break;
      case 1: fault.set_nodes(0.5); break;
      default: fault.set_nics(0.1); break;
    }
    rng.below(2) == 0 ? fault.set_down(true) : fault.set_rate(0.25 + rng.uniform() / 2);
  } else {
    fault.set_rank(static_cast<std::uint32_t>(rng.below(4)));
    switch (rng.below(6)) {
      case 0: fault.set_slow(1 + rng.uniform()); break;
      case 1: fault.set_link_slow(1 + rng.uniform()); break;
      case 2: fault.set_link_down(true); break;
      case 3: fault.set_kill(true); return fault;
      case 4: fault.set_stop(true); return fault;
      default: {
        if (!steps) {
          fault.set_slow(2);
          break;
        }
        fault.mutable_ramp()->set_slow(1 + rng.uniform());
        fault.mutable_ramp()->set_steps(1 + rng.below(4));
      }
    }
  }
  const auto later = begin + 1 + rng.below(kSteps);
  switch (rng.below(3)) {
    case 0: break;
    case 1: fault.set_until_time(static_cast<Nanos>(steps ? rng.below(kSteps) : later)); break;
    default: steps ? fault.set_until_step(later) : fault.set_for_(static_cast<Nanos>(later));
  }
  return fault;
}

RC_GTEST_PROP(FaultScript, SaysWhatReadingLineByLineSays, (std::uint64_t seed)) {
  Rng rng(seed);
  Scenario scenario;
  scenario.mutable_run()->set_seed(rng.below(5));
  for (auto count = rng.below(20); count > 0; --count) *scenario.add_faults() = random_fault(rng);
  const FaultScript script(scenario, kCluster);
  const Naive naive(scenario, script);
  for (int i = 0; i < 30; ++i) {  // there and back
    const Moment at{static_cast<std::int64_t>(rng.below(2 * kSteps + 4)),
                    static_cast<Nanos>(rng.below(2 * kSteps + 4))};
    const auto expected = naive.conditions(at);
    RC_ASSERT(script.conditions(at) == expected);
    for (const auto& [target, condition] : expected) {
      RC_ASSERT(script.condition(target, at) == condition);
    }
    RC_ASSERT(script.condition(RankId{9}, at) == Condition{});
    const auto begun = std::ranges::count_if(
        scenario.faults(), [&](const Fault& fault) { return Naive::begun(fault, at); });
    RC_ASSERT(script.begun_count(at) == static_cast<std::uint64_t>(begun));

    const Nanos until = at.now + static_cast<Nanos>(rng.below(8));
    std::vector<Nanos> changing;
    for (Nanos each = at.now + 1; each < until; ++each) {
      if (naive.changes(each)) changing.push_back(each);
      RC_ASSERT(script.changing_faults(each).empty() != naive.changes(each));
    }
    RC_ASSERT(script.instants(at.now, until) == changing);
    const auto next = script.next_instant(at.now);
    if (!changing.empty()) RC_ASSERT(next == changing.front());
    if (changing.empty() && next) RC_ASSERT(*next >= until);

    const auto step = static_cast<Step>(at.step);
    auto strike = script.next_strike(step, at.now, until);
    std::vector<std::uint32_t> struck;
    Nanos when = at.now;
    for (; when < until && struck.empty(); ++when) {
      struck = naive.striking(when == at.now ? std::optional(step) : std::nullopt, when);
    }
    RC_ASSERT(strike.has_value() == !struck.empty());
    if (strike) RC_ASSERT(strike->faults == struck);
    if (strike) RC_ASSERT(strike->at == when - 1);
  }
}

RC_GTEST_PROP(FaultScript, NothingChangesBeforeTheNextStep, (std::uint64_t seed)) {
  Rng rng(seed);
  Scenario scenario;
  scenario.mutable_run()->set_seed(1);
  for (auto count = rng.below(8); count > 0; --count) *scenario.add_faults() = random_fault(rng);
  const FaultScript script(scenario, kCluster);
  const Nanos now = static_cast<Nanos>(rng.below(kSteps));
  for (Step step = 0; step < 3 * kSteps; ++step) {
    const auto at = [&](Step of) { return Moment{static_cast<std::int64_t>(of), now}; };
    const Step next = script.next_step(step).value_or(3 * kSteps);
    RC_ASSERT(next > step);
    for (Step each = step + 1; each < next; ++each) {
      RC_ASSERT(script.conditions(at(each)) == script.conditions(at(step)));
      RC_ASSERT(!script.next_strike(each, 100, 101));
    }
  }
}

RC_GTEST_PROP(FaultScript, EveryFaultIsDueOnceWithThoseOfItsTrigger, (std::uint64_t seed)) {
  Rng rng(seed);
  Scenario scenario;
  for (auto count = rng.below(30); count > 0; --count) *scenario.add_faults() = random_fault(rng);
  const FaultScript script(scenario, kCluster);
  Moment seen = kBeforeTheRun;
  std::set<std::uint32_t> all;
  std::set<std::pair<bool, std::int64_t>> triggers;
  while (seen.step < static_cast<std::int64_t>(kSteps) || seen.now < static_cast<Nanos>(kSteps)) {
    const Moment here{seen.step + static_cast<std::int64_t>(rng.below(3)),
                      seen.now + static_cast<Nanos>(rng.below(3))};
    for (const FaultGroup& group : script.due(seen, here)) {
      RC_ASSERT(triggers.emplace(group.at_step, group.at).second);
      for (const std::uint32_t fault : group.faults) {
        RC_ASSERT(all.insert(fault).second);
        RC_ASSERT(script.is_at_step(fault) == group.at_step);
        RC_ASSERT(script.begin(fault) == group.at);
      }
    }
    seen = here;
  }
  RC_ASSERT(all.size() == script.size());
}

// ---- by hand ----------------------------------------------------------------------------------

TEST(FaultScript, ConditionsOfOneRankMultiply) {
  Scenario scenario;
  Fault& first = at_step(scenario, 3);
  first.set_rank(5);
  first.set_slow(2);
  first.set_until_step(6);
  Fault& ramp = at_step(scenario, 10);
  ramp.set_rank(1);
  ramp.mutable_ramp()->set_slow(3);
  ramp.mutable_ramp()->set_steps(4);
  Fault& second = at_step(scenario, 4);
  second.set_rank(5);
  second.set_slow(4);
  const FaultScript script(scenario, kCluster);
  const auto slow = [&](std::uint32_t rank, std::int64_t step) {
    return script.condition(RankId{rank}, {step, 0}).slow;
  };
  EXPECT_EQ(slow(5, 2), 1);
  EXPECT_EQ(slow(5, 3), 2);
  EXPECT_EQ(slow(5, 5), 8);
  EXPECT_EQ(slow(5, 6), 4);
  EXPECT_EQ(slow(1, 10), 1);
  EXPECT_EQ(slow(1, 12), 2);
  EXPECT_EQ(slow(1, 100), 3);
  EXPECT_EQ(slow(0, 100), 1);
}

TEST(FaultScript, StepsAreAskedForOnlyWhileSomethingChanges) {
  Scenario scenario;
  Fault& ramp = at_step(scenario, 10);
  ramp.set_rank(1);
  ramp.mutable_ramp()->set_slow(3);
  ramp.mutable_ramp()->set_steps(2);
  ramp.set_until_step(50);
  Fault& timed = at_time(scenario, 5);
  timed.set_rank(1);
  timed.set_slow(3);
  const FaultScript script(scenario, kCluster);
  EXPECT_EQ(script.next_step(0), Step{10});
  EXPECT_EQ(script.next_step(10), Step{11});
  EXPECT_EQ(script.next_step(11), Step{12});
  EXPECT_EQ(script.next_step(12), Step{50});
  EXPECT_EQ(script.next_step(50), std::nullopt);
}

TEST(FaultScript, TwoKillsOfOneInstantAreOneStrike) {
  Scenario scenario;
  for (const std::uint32_t rank : {2u, 1u}) {
    Fault& fault = at_time(scenario, 50);
    fault.set_rank(rank);
    fault.set_kill(true);
  }
  Fault& of_step = at_step(scenario, 7);
  of_step.set_node(1);
  of_step.set_down(true);
  FaultScript script(scenario, kCluster);
  const auto both = script.next_strike(7, 50, 90);
  ASSERT_TRUE(both.has_value());
  EXPECT_EQ(both->faults, (std::vector<std::uint32_t>{0, 1, 2})) << "the step begins then, too";
  const auto later = script.next_strike(6, 40, 90);
  ASSERT_TRUE(later.has_value());
  EXPECT_EQ(later->at, 50);
  EXPECT_EQ(later->faults, (std::vector<std::uint32_t>{0, 1}));
  script.mark_spent(0);
  EXPECT_EQ(script.next_strike(6, 40, 90)->faults, std::vector<std::uint32_t>{1});
  script.mark_spent(1);
  EXPECT_FALSE(script.next_strike(6, 40, 90));
  EXPECT_TRUE(script.is_ending_ranks(2));
  EXPECT_EQ(script.cause(2, Part{PartKind::node, 1}), "node 1 down");
  EXPECT_EQ(script.cause(0, RankId{2}), "rank 2 killed");
}

TEST(FaultScript, APartThatIsDownAndTheNicOfARankWithoutALinkAreLost) {
  Scenario scenario;
  at_step(scenario, 3).set_rank(1);
  scenario.mutable_faults(0)->set_link_down(true);
  scenario.mutable_faults(0)->set_until_step(5);
  at_time(scenario, 100).set_node(2);
  scenario.mutable_faults(1)->set_down(true);
  at_step(scenario, 0).set_gpu(4);
  scenario.mutable_faults(2)->set_rate(0.5);  // slow, not lost
  const FaultScript script(scenario, kCluster);
  const std::vector<GpuId> gpus{{0}, {9}};
  const Part node{PartKind::node, 2};
  const Part nic{PartKind::nic, kCluster.rails() + kCluster.rail_of({9})};
  EXPECT_EQ(lost_parts(script, {2, 99}, kCluster, gpus), std::set<Part>{});
  EXPECT_EQ(lost_parts(script, {3, 99}, kCluster, gpus), std::set<Part>{nic});
  EXPECT_EQ(lost_parts(script, {4, 100}, kCluster, gpus), (std::set<Part>{node, nic}));
  EXPECT_EQ(lost_parts(script, {5, 100}, kCluster, gpus), std::set<Part>{node});
  EXPECT_EQ(lost_parts(script, {4, 0}, kCluster, {}), std::set<Part>{}) << "a rank that is nowhere";
}

TEST(FaultScript, APartIsAsSlowAsItsFaultsTogetherMakeIt) {
  Scenario scenario;
  at_step(scenario, 3).set_gpu(4);
  scenario.mutable_faults(0)->set_rate(0.55);
  scenario.mutable_faults(0)->set_until_step(7);
  at_time(scenario, 100).set_gpu(4);
  scenario.mutable_faults(1)->set_rate(0.5);
  at_step(scenario, 0).set_rank(1);
  scenario.mutable_faults(2)->set_link_slow(4);
  at_time(scenario, 200).set_storage(0);
  scenario.mutable_faults(3)->set_rate(0.1);
  at_step(scenario, 0).set_rank(0);  // no part: the process may be slow for reasons of its own
  scenario.mutable_faults(4)->set_slow(2);
  at_step(scenario, 9).set_node(0);
  scenario.mutable_faults(5)->set_rate(1);
  const FaultScript script(scenario, kCluster);
  const std::vector<GpuId> gpus{{0}, {9}};
  const Part gpu{PartKind::gpu, 4}, storage{PartKind::storage, 0};
  const Part nic{PartKind::nic, kCluster.rails() + kCluster.rail_of({9})};
  using Rates = std::map<Part, double>;
  EXPECT_EQ(slower_parts(script, {2, 99}, kCluster, gpus), (Rates{{nic, 0.25}}));
  EXPECT_EQ(slower_parts(script, {3, 99}, kCluster, gpus), (Rates{{gpu, 0.55}, {nic, 0.25}}))
      << "as the scenario says, to the last bit";
  EXPECT_EQ(slower_parts(script, {6, 100}, kCluster, gpus), (Rates{{gpu, 0.275}, {nic, 0.25}}));
  EXPECT_EQ(slower_parts(script, {7, 200}, kCluster, gpus),
            (Rates{{gpu, 0.5}, {nic, 0.25}, {storage, 0.1}}));
  EXPECT_EQ(slower_parts(script, {9, 200}, kCluster, {}), (Rates{{gpu, 0.5}, {storage, 0.1}}));
}

TEST(FaultScript, APartThatIsAFractionOfItsLinksIsNeitherLostNorSlower) {
  for (const bool down : {true, false}) {
    Scenario scenario;
    Fault& fault = at_step(scenario, 0);
    fault.set_port(0);
    down ? fault.set_down(true) : fault.set_rate(0.5);
    const FaultScript script(scenario, kCluster);
    const bool fraction = share_of(kCluster, PartKind::port) < 1;
    EXPECT_EQ(lost_parts(script, {0, 0}, kCluster, {}).empty(), fraction || !down);
    EXPECT_EQ(slower_parts(script, {0, 0}, kCluster, {}).empty(), fraction || down);
  }
}

TEST(FaultScript, APlannedRemovalIsAnnouncedUntilThePartReturns) {
  Scenario scenario;
  Fault& timed = at_time(scenario, 90);
  timed.set_node(1);
  timed.set_down(true);
  timed.set_notice(20);
  timed.set_for_(10);
  timed.set_test(5);
  Fault& of_step = at_step(scenario, 8);
  of_step.set_gpu(3);
  of_step.set_down(true);
  of_step.set_notice_steps(100);  // announced at once
  const FaultScript script(scenario, kCluster);
  const Part node{PartKind::node, 1}, gpu{PartKind::gpu, 3};
  std::map<Part, Removal> both;
  both[gpu].at_step = 8;
  EXPECT_EQ(script.removals({0, 69}), both);
  both[node].at = 90;
  both[node].back_at = 100;
  EXPECT_EQ(script.removals({0, 70}), both);
  EXPECT_EQ(script.removals({9, 99}), both) << "also while the parts are away";
  EXPECT_EQ(script.removals({9, 100}).size(), 1u);
  EXPECT_EQ(script.removals({0, 69}).size(), 1u) << "back in time";
  EXPECT_TRUE(script.removals(kBeforeTheRun).empty());
  EXPECT_EQ(script.instants(0, 200), (std::vector<Nanos>{70, 90, 100}));
  EXPECT_TRUE(script.has_change_at(70));
  EXPECT_TRUE(script.changing_faults(70).empty()) << "no hardware changes";
  EXPECT_EQ(script.begun_count({0, 70}), 0u);
  EXPECT_TRUE(script.due({-1, 0}, {0, 89}).empty());
  EXPECT_EQ(script.next_step(0), Step{8});
  EXPECT_EQ(script.test_time(node), 5);
  EXPECT_EQ(script.test_time(gpu), 0);
}

TEST(FaultScript, AShareIsDrawnByTheSeed) {
  Scenario scenario;
  Fault& fault = at_step(scenario, 0);
  fault.set_nics(0.3);
  fault.set_rate(0.5);
  const auto drawn = [&](std::uint64_t seed) {
    scenario.mutable_run()->set_seed(seed);
    const FaultScript script(scenario, kCluster);
    std::set<std::uint32_t> nics;
    for (const FaultTarget& target : script.targets(0)) {
      EXPECT_EQ(std::get<Part>(target).kind, PartKind::nic);
      nics.insert(std::get<Part>(target).index);
    }
    return nics;
  };
  EXPECT_EQ(drawn(1).size(), 10u);  // out of 32 NICs
  EXPECT_LT(*drawn(1).rbegin(), 32u);
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
  fault.set_nics(1);
  EXPECT_EQ(drawn(1).size(), 32u);
}

TEST(FaultScript, APartThatTheClusterLacksIsRefusedWithItsPlace) {
  Scenario scenario;
  Fault& fault = at_step(scenario, 0);
  fault.set_nic(32);
  fault.set_rate(0.5);
  try {
    const FaultScript script(scenario, kCluster);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_EQ(error.message(), "faults[0].nic: there is no nic 32: the cluster has 32");
  }
}

}  // namespace
}  // namespace orrery
