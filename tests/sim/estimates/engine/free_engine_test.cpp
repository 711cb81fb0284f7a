#include "sim/estimates/engine/free_engine.hpp"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "sim/engine/simgrid_engine.hpp"
#include "tests/sim/run.hpp"

namespace orrery::estimates {
namespace {

using Links = std::vector<std::uint32_t>;
using Seen = std::vector<double>;
/// Starts activities at time 0 and records the events.
using Plot = std::function<void(Engine&, Seen&)>;

Seen play(Engine& engine, const Plot& plot) {
  Seen seen;
  engine.after(0, [&] { plot(engine, seen); });
  engine.run();
  return seen;
}

/// The same plot on both engines.
void expect_equal(const Plot& plot, std::uint32_t hosts, std::uint32_t links) {
  FreeEngine free(hosts, links);
  const Seen ours = play(free, plot);
  const Seen shared = testing::numbers_in_child([&] {
    sim::SimGridEngine engine(hosts, links);
    return play(engine, plot);
  });
  ASSERT_EQ(ours.size(), shared.size());
  ASSERT_FALSE(ours.empty());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_NEAR(ours[i], shared[i], 2e-9 * std::max(1.0, shared[i])) << i;
  }
}

TEST(FreeEngine, IsSimGridsWhereNothingIsShared) {
  expect_equal(
      [](Engine& engine, Seen& seen) {
        engine.set_bandwidth(0, 50e9);
        engine.set_bandwidth(1, 90e9);
        engine.flow(Links{0, 1, 1}, 1e9, [&](bool) { seen.push_back(engine.now()); });
        engine.start_computation(0, 0.5, [&](bool) { seen.push_back(engine.now()); });
        engine.after(0.25, [&] { seen.push_back(engine.now()); });
      },
      1, 2);
}

TEST(FreeEngine, SpeedChangesMidway) {
  expect_equal(
      [](Engine& engine, Seen& seen) {
        engine.start_computation(0, 2.0, [&](bool) { seen.push_back(engine.now()); });
        engine.after(0.5, [&] { engine.set_speed(0, 0.25); });
        engine.after(1.5, [&] { engine.set_speed(0, 2); });
      },
      1, 1);
}

TEST(FreeEngine, BandwidthChangesMidway) {
  expect_equal(
      [](Engine& engine, Seen& seen) {
        engine.set_bandwidth(0, 100);
        engine.flow(Links{0}, 1000, [&](bool) { seen.push_back(engine.now()); });
        engine.after(4, [&] { engine.set_bandwidth(0, 50); });
      },
      1, 1);
}

TEST(FreeEngine, LinkThatGoesDownFailsItsFlows) {
  expect_equal(
      [](Engine& engine, Seen& seen) {
        engine.set_bandwidth(0, 100);
        const auto note = [&](bool ok) { seen.push_back(ok ? 1e6 : engine.now()); };
        engine.flow(Links{0}, 1000, note);
        engine.after(3, [&] { engine.set_link_up(0, false); });
        engine.after(5, [&, note] { engine.flow(Links{0}, 10, note); });
        engine.after(6, [&, note] {
          engine.set_link_up(0, true);
          engine.flow(Links{0}, 10, note);
        });
      },
      1, 1);
}

TEST(FreeEngine, AFailedFlowFailsAlsoIfItsLinkChangesItsRateAtThatInstant) {
  FreeEngine engine(1, 1);
  const Seen ends = play(engine, [](Engine& on, Seen& seen) {
    on.set_bandwidth(0, 100);
    on.flow(Links{0}, 1000, [&](bool ok) { seen.push_back(ok ? 1e6 : on.now()); });
    on.after(3, [&] {
      on.set_link_up(0, false);
      on.set_bandwidth(0, 50);
    });
  });
  EXPECT_EQ(ends, (Seen{3}));
}

TEST(FreeEngine, FlowsGoAsIfAlone) {
  FreeEngine engine(1, 1);
  const Seen ends = play(engine, [](Engine& on, Seen& seen) {
    on.set_bandwidth(0, 100);
    for (int i = 0; i < 3; ++i) {
      on.flow(Links{0}, 1000, [&](bool) { seen.push_back(on.now()); });
    }
  });
  EXPECT_EQ(ends, (Seen{10, 10, 10}));
}

TEST(FreeEngine, AnInstantKeepsTheOrderOfStarting) {
  FreeEngine engine(3, 1);
  const Seen order = play(engine, [](Engine& on, Seen& seen) {
    for (std::uint32_t host = 0; host < 3; ++host) {
      on.start_computation(host, 1, [&seen, host](bool) { seen.push_back(host); });
      on.after(1, [&seen, host] { seen.push_back(10 + host); });
    }
  });
  EXPECT_EQ(order, (Seen{0, 10, 1, 11, 2, 12}));
  EXPECT_EQ(engine.events(), 7u);
}

TEST(FreeEngine, CancelAllForgetsAndRunsAgain) {
  FreeEngine engine(1, 1);
  double told = 0;
  engine.after(0, [&] {
    engine.start_computation(0, 100, [&](bool) { ++told; });
    engine.after(50, [&] { ++told; });
    engine.after(1, [&] { engine.cancel_all(); });
  });
  engine.run();
  EXPECT_EQ(told, 0);
  EXPECT_EQ(engine.now(), 1);
  engine.after(1, [&] { engine.start_computation(0, 2, [&](bool) { told = engine.now(); }); });
  engine.run();
  EXPECT_EQ(told, 4);
}

}  // namespace
}  // namespace orrery::estimates
