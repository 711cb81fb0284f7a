#include "sim/estimates/engine/max_min_shares.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/random.hpp"
#include "sim/engine/simgrid_compat.hpp"
#include "sim/engine/simgrid_engine.hpp"
#include "sim/estimates/engine/sharing_engine.hpp"
#include "tests/sim/run.hpp"

namespace orrery::estimates {
namespace {

using testing::numbers_in_child;

constexpr std::uint32_t kLinks = 12;

/// Random flows, of which some begin or end together, follow one another, cross links several times
/// or nearly all links, or meet changes and failures of links.
class RandomFlows {
 public:
  RandomFlows(Engine& engine, std::uint64_t seed) : engine_(engine), seed_(seed), draw_(seed) {}

  /// Returns the number, the time and the success of each end.
  std::vector<double> ends() {
    engine_.after(0, [this] { begin(); });
    engine_.run();
    return ends_;
  }

 private:
  std::uint32_t below(std::uint32_t count) {
    return static_cast<std::uint32_t>(draw_.below(count));
  }

  void begin() {
    for (std::uint32_t link = 0; link < kLinks; ++link) {
      engine_.set_link_up(link, true);
      engine_.set_bandwidth(link, 25e9 * (1 + below(3)));
    }
    for (int flow = 0; flow < 40; ++flow) {
      const std::uint32_t then = below(3);
      engine_.after(0.01 * below(20), [this, then] { start(then); });
    }
    for (int change = 0; change < 3; ++change) {
      const std::uint32_t link = below(kLinks), times = 1 + below(4);
      engine_.after(0.013 * (1 + below(20)), [this, link, times] {
        engine_.set_bandwidth(link, 10e9 * times);
      });
    }
    if (below(4) > 0) return;
    const std::uint32_t link = below(kLinks);
    engine_.after(0.017, [this, link] { engine_.set_link_up(link, false); });
  }

  /// Starts a flow, and `then` others after it.
  void start(std::uint32_t then) {
    const std::vector<std::uint32_t> over = seed_ % 3 == 0 && below(4) > 0 ? nearly_all() : few();
    engine_.flow(over, 1e8 * (1 + below(9)), [this, number = ++started_, then](bool ok) {
      ends_.insert(ends_.end(), {double(number), engine_.now(), double(ok)});
      if (then > 0) start(then - 1);
    });
  }

  std::vector<std::uint32_t> few() {
    std::vector<std::uint32_t> over;
    std::uint32_t link = below(4);
    for (std::uint32_t count = 1 + below(4); count > 0 && link < kLinks; --count) {
      over.insert(over.end(), 1 + below(5) / 3, link);
      link += 1 + below(4);
    }
    return over;
  }
  /// Returns all links except one, once or with one of them at both ends.
  std::vector<std::uint32_t> nearly_all() {
    std::vector<std::uint32_t> over(kLinks);
    std::iota(over.begin(), over.end(), 0u);
    over.erase(over.begin() + below(kLinks));
    if (below(8) == 0) over.push_back(over.front());
    return over;
  }

  Engine& engine_;
  std::uint64_t seed_;
  Rng draw_;
  std::uint32_t started_ = 0;
  std::vector<double> ends_;
};

/// The bits are those of the release that the solver follows; others round elsewhere.
TEST(MaxMinShares, FlowsEndAtTheBitsOfSimGrid) {
  const std::vector<double> seen = numbers_in_child([] {
    sim::SimGridEngine simgrid(1, kLinks);
    double ends = 0, others = 0, most = 0;
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
      SharingEngine own(1, kLinks, std::make_unique<MaxMinShares>(kLinks, simgrid.now()));
      const std::vector<double> expected = RandomFlows(simgrid, seed).ends();
      const std::vector<double> found = RandomFlows(own, seed).ends();
      ends += static_cast<double>(expected.size()) / 3;
      others += expected == found ? 0 : 1;
      if (expected.size() != found.size()) most = 1;
      for (std::size_t i = 0; i < std::min(expected.size(), found.size()); ++i) {
        most = std::max(most, std::abs(expected[i] - found[i]));
      }
    }
    return std::vector<double>{ends, others, most, static_cast<double>(simgrid.shared_flows())};
  });
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_GT(seen[0], 12000);
  if (SIMGRID_VERSION < 33300) {
    EXPECT_EQ(seen[1], 0) << "at most " << seen[2] << " apart";
  }
  EXPECT_LT(seen[2], 1e-6);
  EXPECT_GT(seen[3], 8000) << "most flows meet others";
}

TEST(MaxMinShares, ACancelledEngineStartsAfresh) {
  SharingEngine engine(1, 1, std::make_unique<MaxMinShares>(1, 5));
  std::vector<double> ends;
  const std::vector<std::uint32_t> link{0};
  engine.after(0, [&] {
    engine.set_bandwidth(0, 100);
    engine.flow(link, 1000, [&](bool) { ends.push_back(-1); });
    engine.flow(link, 1000, [&](bool) { ends.push_back(-1); });
    engine.after(4, [&] {
      engine.cancel_all();
      for (int i = 0; i < 2; ++i) {
        engine.flow(link, 100, [&](bool) { ends.push_back(engine.now()); });
      }
    });
  });
  engine.run();
  EXPECT_EQ(ends, (std::vector<double>{11, 11}));  // 5 + 4, then 100 at 50 each
}

/// Part 0 has two flows on one link, two computations that end with the first of them, and a timer;
/// part 1 a computation. Each pauses at its first end; the others come later.
TEST(MaxMinShares, PartsContinueTogetherWhereEachHasPaused) {
  SharingEngine engine(3, 2, std::make_unique<MaxMinShares>(2, 5));
  std::vector<std::string> ends;
  const auto log = [&](const char* what) {
    return [&, what](auto...) { ends.push_back(fmt::format("{} {:.6f}", what, engine.now())); };
  };
  const auto pause = [&](const char* what) {
    return [&, what](auto...) { log(what)(), engine.pause_part(); };
  };
  const std::vector<std::uint32_t> link{0};
  for (const std::uint32_t each : {0u, 1u}) engine.set_bandwidth(each, 100);
  engine.run_parts(2, [&](std::uint32_t part) {
    if (part == 1) {
      engine.start_computation(1, 3, pause("last"));
      return;
    }
    engine.start_computation(0, 2, pause("first"));
    engine.start_computation(2, 2, log("second"));
    engine.flow(link, 100, log("flow"));
    engine.flow(link, 300, log("longer flow"));
    engine.after(2.5, log("timer"));
  });
  EXPECT_EQ(ends, (std::vector<std::string>{"first 7.000000", "last 8.000000"}));
  EXPECT_EQ(engine.now(), 5);
  ends.clear();
  engine.run();
  EXPECT_EQ(ends, (std::vector<std::string>{"second 7.000000", "flow 7.000000", "timer 7.500000",
                                            "longer flow 9.000000"}));
}

}  // namespace
}  // namespace orrery::estimates
