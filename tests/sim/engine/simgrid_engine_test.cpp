#include "sim/engine/simgrid_engine.hpp"
#include "sim/engine/step_engine.hpp"

#include <csignal>

#include <gtest/gtest.h>

#include "tests/sim/run.hpp"

namespace orrery::sim {
namespace {

using testing::numbers_in_child;
using Links = std::vector<std::uint32_t>;

TEST(SimGridEngine, FlowTakesBytesOverBandwidth) {
  const auto t = numbers_in_child([] {
    SimGridEngine engine(1, 1);
    std::vector<double> ends;
    engine.after(0, [&] {
      engine.set_bandwidth(0, 50e9);
      engine.flow(Links{0}, 1e9, [&](bool) { ends.push_back(engine.now()); });
    });
    engine.run();
    return ends;
  });
  ASSERT_EQ(t.size(), 1u);
  EXPECT_NEAR(t[0], 0.02, 0.02e-9);
}

TEST(SimGridEngine, TwoFlowsOnOneLinkTakeTwiceAsLong) {
  const auto t = numbers_in_child([] {
    SimGridEngine engine(1, 2);
    std::vector<double> ends;
    engine.after(0, [&] {
      engine.set_bandwidth(0, 100);
      engine.set_bandwidth(1, 1e6);
      for (int i = 0; i < 2; ++i) {
        engine.flow(Links{0, 1}, 1000, [&](bool) { ends.push_back(engine.now()); });
      }
    });
    engine.run();
    return ends;
  });
  ASSERT_EQ(t.size(), 2u);
  EXPECT_NEAR(t[0], 20, 1e-6);
  EXPECT_NEAR(t[1], 20, 1e-6);
}

TEST(SimGridEngine, LinkNamedTwiceCountsTwice) {
  const auto t = numbers_in_child([] {
    SimGridEngine engine(1, 1);
    std::vector<double> ends;
    engine.after(0, [&] {
      engine.set_bandwidth(0, 90);
      engine.flow(Links{0, 0}, 300, [&](bool) { ends.push_back(engine.now()); });
      engine.flow(Links{0}, 300, [&](bool) { ends.push_back(engine.now()); });
    });
    engine.run();
    return ends;
  });
  // Equal rates r with 2 r + r = 90.
  ASSERT_EQ(t.size(), 2u);
  EXPECT_NEAR(t[0], 10, 1e-6);
  EXPECT_NEAR(t[1], 10, 1e-6);
}

TEST(SimGridEngine, AFlowSharesFromWhenItIsMetUntilItEnds) {
  const auto t = numbers_in_child([] {
    SimGridEngine engine(1, 3);
    std::vector<double> ends;
    const auto note = [&](bool ok) { ends.push_back(ok ? engine.now() : -1); };
    engine.after(0, [&] {
      for (const std::uint32_t link : {0u, 1u, 2u}) engine.set_bandwidth(link, 100);
      engine.flow(Links{0, 1}, 1000, note);                          // alone until 4
      engine.after(4, [&] { engine.flow(Links{1, 2}, 100, note); });  // 50 a second each until 6
      engine.after(5, [&] { engine.flow(Links{2}, 500, note); });
    });
    engine.run();
    ends.push_back(static_cast<double>(engine.shared_flows()));
    return ends;
  });
  // At 5 the third meets the second, whose rate stays 50 beside the first; the others get the rest.
  ASSERT_EQ(t.size(), 4u);
  EXPECT_NEAR(t[0], 6, 1e-6);    // 100 at 50 a second
  EXPECT_NEAR(t[1], 10.5, 1e-6);  // 50 in its first second, then 450 at 100
  EXPECT_NEAR(t[2], 11, 1e-6);   // 400 by 4, 100 by 6, then 500 at 100
  EXPECT_EQ(t[3], 3);
}

TEST(SimGridEngine, IsAskedOnlyAboutFlowsThatMeet) {
  const auto t = numbers_in_child([] {
    constexpr std::uint32_t kPairs = 1000;
    SimGridEngine engine(kPairs, 2 * kPairs);
    double ended = 0;
    engine.after(0, [&] {
      for (std::uint32_t i = 0; i < kPairs; ++i) {
        engine.set_bandwidth(2 * i, 10);
        engine.set_bandwidth(2 * i + 1, 10 + i);
        engine.start_computation(i, 1, [&](bool ok) { ended += ok ? 1 : 0; });
        engine.flow(Links{2 * i, 2 * i + 1}, 30, [&](bool ok) { ended += ok ? 1 : 0; });
      }
      // One after the other over the same link: they do not meet.
      engine.after(4, [&] { engine.flow(Links{0}, 10, [&](bool) { ++ended; }); });
    });
    engine.run();
    const double apart = static_cast<double>(engine.shared_flows());
    engine.after(0, [&] {
      engine.flow(Links{0, 1}, 30, [&](bool) { ++ended; });
      engine.flow(Links{1}, 30, [&](bool) { ++ended; });
    });
    engine.run();
    return std::vector<double>{ended, apart, static_cast<double>(engine.shared_flows())};
  });
  EXPECT_EQ(t.at(0), 2003);
  EXPECT_EQ(t.at(1), 0);
  EXPECT_EQ(t.at(2), 2);
}

TEST(SimGridEngine, SharingFlowsFollowTheirLink) {
  const auto t = numbers_in_child([] {
    SimGridEngine engine(1, 2);
    std::vector<double> seen;
    engine.after(0, [&] {
      engine.set_bandwidth(0, 100);
      engine.set_bandwidth(1, 100);
      engine.flow(Links{0}, 300, [&](bool) { seen.push_back(engine.now()); });
      engine.flow(Links{0, 1}, 900, [&](bool ok) { seen.push_back(ok ? engine.now() : -1); });
      engine.after(2, [&] { engine.set_bandwidth(0, 200); });  // 100 each so far
      engine.after(5, [&] { engine.set_link_up(1, false); });
      engine.after(5, [&] {
        engine.flow(Links{0}, 200, [&](bool) { seen.push_back(engine.now()); });
      });
    });
    engine.run();
    return seen;
  });
  ASSERT_EQ(t.size(), 3u);
  EXPECT_NEAR(t[0], 4, 1e-6);  // 200 more at 100 a second
  EXPECT_EQ(t[1], -1);
  EXPECT_NEAR(t[2], 6, 1e-6);  // the one that failed takes nothing any more
}

TEST(SimGridEngine, HostThatSlowsDownMidwayEndsExactly) {
  const auto t = numbers_in_child([] {
    SimGridEngine engine(2, 0);
    std::vector<double> ends;
    engine.after(0, [&] {
      engine.start_computation(0, 2.0, [&](bool) { ends.push_back(engine.now()); });
      engine.after(0.5, [&] { engine.set_speed(0, 0.25); });
      engine.after(1.5, [&] { engine.set_speed(0, 2); });
    });
    engine.run();
    return ends;
  });
  // 0.5 of the work, then 0.25 in one second, then 1.25 at double speed.
  ASSERT_EQ(t.size(), 1u);
  EXPECT_NEAR(t[0], 1.5 + 1.25 / 2, 1e-9);
}

TEST(SimGridEngine, SpeedChangeAtTheEndOfAComputationComesTooLate) {
  const auto t = numbers_in_child([] {
    SimGridEngine engine(2, 1);
    std::vector<double> ends;
    engine.after(0, [&] {
      engine.after(1.0, [&] { engine.set_speed(0, 0.25); });
      for (const std::uint32_t host : {0u, 1u}) {
        engine.start_computation(host, 1.0, [&](bool) { ends.push_back(engine.now()); });
      }
      engine.after(1.0, [&] { engine.set_speed(1, 0.25); });
    });
    engine.run();
    return ends;
  });
  ASSERT_EQ(t.size(), 2u);
  EXPECT_NEAR(t[0], 1, 1e-9);
  EXPECT_NEAR(t[1], 1, 1e-9);
}

TEST(SimGridEngine, BandwidthChangesMidFlow) {
  const auto t = numbers_in_child([] {
    SimGridEngine engine(1, 1);
    std::vector<double> ends;
    engine.after(0, [&] {
      engine.set_bandwidth(0, 100);
      engine.flow(Links{0}, 1000, [&](bool) { ends.push_back(engine.now()); });
      engine.after(4, [&] { engine.set_bandwidth(0, 50); });
    });
    engine.run();
    return ends;
  });
  ASSERT_EQ(t.size(), 1u);
  EXPECT_NEAR(t[0], 16, 1e-6);
}

TEST(SimGridEngine, LinkThatGoesDownFailsItsFlowsThen) {
  const auto t = numbers_in_child([] {
    SimGridEngine engine(1, 2);
    std::vector<double> seen;
    engine.after(0, [&] {
      engine.set_bandwidth(0, 100);
      engine.set_bandwidth(1, 100);
      engine.flow(Links{0}, 1000, [&](bool ok) {
        seen.push_back(ok ? 1 : 0);
        seen.push_back(engine.now());
      });
      engine.flow(Links{1}, 1000, [&](bool ok) {
        seen.push_back(ok ? 1 : 0);
        seen.push_back(engine.now());
      });
      engine.after(3, [&] { engine.set_link_up(0, false); });
      engine.after(5, [&] {  // a flow that starts over it fails at once
        engine.flow(Links{1, 0}, 10, [&](bool ok) {
          seen.push_back(ok ? 1 : 0);
          seen.push_back(engine.now());
        });
      });
    });
    engine.run();
    return seen;
  });
  ASSERT_EQ(t.size(), 6u);
  EXPECT_EQ(t[0], 0);
  EXPECT_NEAR(t[1], 3, 1e-9);
  EXPECT_EQ(t[2], 0);
  EXPECT_NEAR(t[3], 5, 1e-9);
  EXPECT_EQ(t[4], 1);
  EXPECT_NEAR(t[5], 10, 1e-6);
}

TEST(SimGridEngine, FaultBetweenTwoRunsHoldsInTheSecond) {
  const auto t = numbers_in_child([] {
    SimGridEngine engine(1, 1);
    std::vector<double> seen;
    engine.after(0, [&] {
      engine.set_bandwidth(0, 100);
      engine.flow(Links{0}, 100, [&](bool ok) { seen.push_back(ok ? engine.now() : -1); });
    });
    engine.run();
    engine.after(0, [&] {
      engine.set_link_up(0, false);
      engine.flow(Links{0}, 100, [&](bool ok) { seen.push_back(ok ? engine.now() : -1); });
    });
    engine.run();
    engine.after(0, [&] {
      engine.set_link_up(0, true);
      engine.flow(Links{0}, 100, [&](bool ok) { seen.push_back(ok ? engine.now() : -1); });
    });
    engine.run();
    return seen;
  });
  ASSERT_EQ(t.size(), 3u);
  EXPECT_NEAR(t[0], 1, 1e-9);
  EXPECT_EQ(t[1], -1);
  EXPECT_NEAR(t[2], 2, 1e-9);
}

TEST(SimGridEngine, CancelAllForgetsEverything) {
  const auto t = numbers_in_child([] {
    SimGridEngine engine(1, 1);
    double told = 0;
    engine.after(0, [&] {
      engine.set_bandwidth(0, 1);
      engine.flow(Links{0}, 100, [&](bool) { ++told; });
      engine.start_computation(0, 100, [&](bool) { ++told; });
      engine.after(50, [&] { ++told; });
      engine.after(1, [&] { engine.cancel_all(); });
    });
    engine.run();
    return std::vector<double>{told};
  });
  ASSERT_EQ(t.size(), 1u);
  EXPECT_EQ(t[0], 0);
}

TEST(SimGridEngine, LeavesSignalsToTheProgram) {
  const auto t = numbers_in_child([] {
    const auto ours = [](int) {};
    std::signal(SIGINT, ours);
    const SimGridEngine engine(1, 1);
    return std::vector<double>{std::signal(SIGINT, SIG_DFL) == +ours ? 1.0 : 0.0};
  });
  EXPECT_EQ(t.at(0), 1);
}

TEST(SimGridEngine, ThereIsOneInAProcess) {
  const auto twice = [] {
    return numbers_in_child([] {
      const SimGridEngine first(1, 1);
      const SimGridEngine second(1, 1);
      return std::vector<double>{};
    });
  };
  EXPECT_THROW(twice(), Error);
}

TEST(StepEngine, LargeStepsTakeNoSimGrid) {
  const auto large_besides_small = [] {
    return numbers_in_child([] {
      const auto large = step_engine(kMostSimGridWorkers + 1, 1);
      const auto other = step_engine(kMostSimGridWorkers + 1, 1);
      const auto small = step_engine(kMostSimGridWorkers, 1);
      return std::vector<double>{};
    });
  };
  EXPECT_NO_THROW(large_besides_small());
  const auto two_small = [] {
    return numbers_in_child([] {
      const auto first = step_engine(kMostSimGridWorkers, 1);
      const auto second = step_engine(kMostSimGridWorkers, 1);
      return std::vector<double>{};
    });
  };
  EXPECT_THROW(two_small(), Error);
}

}  // namespace
}  // namespace orrery::sim
