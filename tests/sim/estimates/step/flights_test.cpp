// Flights over the contention-free engine: the landing time is a sum of parts.
#include "sim/estimates/step/flights.hpp"

#include <functional>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "sim/estimates/engine/free_engine.hpp"

namespace orrery::estimates {
namespace {

class FlightsTest : public testing::Test {
 protected:
  FlightsTest() {
    comms_[kPlan].phases = {{.parts = {{.links = {0}, .share = 0.5}, {.links = {1}, .share = 1}},
                             .latency = {0.25}},
                            {.parts = {{.links = {1, 1}, .share = 1}}, .latency = {0.5}}};
    flights_.emplace(engine_, comms_, [this](const CommPhase& phase) { failed_ = &phase; });
  }

  /// From time 0 on, over links of 100 and 50 bytes a second.
  void play(const std::function<void()>& plot) {
    engine_.after(0, [&] {
      engine_.set_bandwidth(0, 100);
      engine_.set_bandwidth(1, 50);
      plot();
    });
    engine_.run();
  }
  std::function<void()> note() {
    return [this] { landed_.push_back(engine_.now()); };
  }

  static constexpr std::uint32_t kNothing = 0, kPlan = 1;
  std::vector<CommPlan> comms_{2};
  FreeEngine engine_{1, 2};
  std::vector<double> landed_;
  const CommPhase* failed_ = nullptr;
  std::optional<Flights> flights_;
};

TEST_F(FlightsTest, PhasesFollowOneAnotherAndTheirSlowestPartsCount) {
  play([this] { flights_->start(kPlan, 100, {}, note()); });
  // 50 bytes beside 100 on a link half as fast: 2 s; then twice over that link: 4 s.
  EXPECT_EQ(landed_, std::vector<double>{2 + 0.25 + 4 + 0.5});
  EXPECT_EQ(failed_, nullptr);
}

TEST_F(FlightsTest, WhatIsCodedFirstLeavesLater) {
  play([this] { flights_->start(kPlan, 100, {3}, note()); });
  EXPECT_EQ(landed_, std::vector<double>{3 + 6.75});
}

TEST_F(FlightsTest, ManyAreUnderWayAndOneThatLandsMayStartAnother) {
  play([this] {
    for (const double bytes : {100.0, 200.0}) {
      flights_->start(kPlan, bytes, {}, [this, bytes] {
        note()();
        flights_->start(kPlan, bytes, {}, note());
      });
    }
  });
  EXPECT_EQ(landed_, (std::vector<double>{6.75, 12.75, 13.5, 25.5}));
}

TEST_F(FlightsTest, WithoutPhasesItIsThereAtOnce) {
  play([&] { flights_->start(kNothing, 100, {}, note()); });
  EXPECT_EQ(landed_, std::vector<double>{0});
}

TEST_F(FlightsTest, OneWhoseLinkGoesDownFails) {
  play([this] {
    flights_->start(kPlan, 100, {}, note());
    engine_.after(3, [this] { engine_.set_link_up(1, false); });
  });
  EXPECT_EQ(failed_, &comms_[kPlan].phases[1]);
  EXPECT_TRUE(landed_.empty());
}

TEST_F(FlightsTest, AfterTheEndNothingLandsOrFails) {
  play([this] {
    flights_->start(kPlan, 100, {}, note());
    flights_->start(kPlan, 100, {5}, note());
    engine_.after(1, [this] {
      flights_->end();
      engine_.set_link_up(1, false);
    });
  });
  EXPECT_TRUE(landed_.empty());
  EXPECT_EQ(failed_, nullptr);
}

}  // namespace
}  // namespace orrery::estimates
