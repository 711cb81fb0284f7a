#include "live/rank/rank_state.hpp"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "live/control/protocol.hpp"

namespace orrery::live {
namespace {

using Kind = membership::Task::Kind;

/// Fabric that records its calls.
class NotedFabric : public JoiningFabric {
 public:
  std::uint32_t rank() const override { return 0; }
  std::uint32_t ranks() const override { return 1; }
  void all_reduce(std::span<float>) override {}
  void abort(const std::string& reason) override { aborted = reason; }
  double round_trip() const override { return 0; }
  const std::string& address() const override { return where; }
  void connect_ranks(std::uint32_t, const std::vector<std::string>&) override {}
  void set_link_rate(double bytes_per_second) override { rate = bytes_per_second; }

  std::string where = "unix:/here", aborted;
  double rate = -1;
};

class RankStateTest : public testing::Test {
 protected:
  MemberDirective directive(std::uint64_t epoch, std::uint64_t number = 1) {
    MemberDirective said;
    said.set_epoch(epoch);
    said.set_number(number);
    return said;
  }
  RankState::Task next() {
    const auto task = state.next([this](const SaveShard& order, Step) { saved = order.attempt(); });
    return task.value_or(RankState::Task{});
  }
  std::shared_ptr<NotedFabric> enter(std::uint64_t epoch) {
    auto fabric = std::make_shared<NotedFabric>();
    state.mark_listening(epoch, fabric);
    return fabric;
  }

  int interrupts = 0, resumed = 0;
  std::uint64_t saved = 0;
  std::vector<MemberStatus> told;
  RankState state{{},
                  0,
                  5.0,
                  {.interrupt = [this] { ++interrupts; },
                   .resume = [this] { ++resumed; },
                   .tell = [this](const MemberStatus& status) { told.push_back(status); }}};
};

TEST_F(RankStateTest, ANewEpochInterruptsWhatIsDoneAndRevokesItsLinks) {
  state.on_directive(directive(1));
  EXPECT_EQ(interrupts, 1);
  EXPECT_EQ(next().kind, Kind::enter);
  EXPECT_EQ(resumed, 1);
  const auto fabric = enter(1);
  EXPECT_EQ(fabric->rate, 5.0);
  EXPECT_EQ(told.back().epoch(), 1u);
  EXPECT_EQ(told.back().address(), "unix:/here");
  state.on_directive(directive(1, 2));
  EXPECT_EQ(interrupts, 1) << "the epoch goes on";
  EXPECT_EQ(fabric->aborted, "");
  state.on_directive(directive(2));
  EXPECT_EQ(interrupts, 2);
  EXPECT_EQ(fabric->aborted, "its epoch is over");
  EXPECT_FALSE(state.links(1)) << "its orders are gone with it";
  EXPECT_FALSE(state.plan(1));
  EXPECT_EQ(told.size(), 4u) << "after everything heard and every change";
}

TEST_F(RankStateTest, ALinkThatIsDownBreaksTheFabricAndIsWaitedFor) {
  state.on_directive(directive(1));
  const auto fabric = enter(1);
  Hardware hardware;
  hardware.set_link_rate(7);
  hardware.set_link_down(true);
  state.on_hardware(hardware);
  EXPECT_EQ(fabric->rate, 7);
  EXPECT_EQ(fabric->aborted, "the link of this rank is down");
  const std::jthread mender([&] {
    hardware.set_link_down(false);
    state.on_hardware(hardware);
  });
  EXPECT_TRUE(state.wait_for_link(1));
  EXPECT_FALSE(state.wait_for_link(9)) << "over before it is up";
}

TEST_F(RankStateTest, ShardsAreSavedBeforeTheNextTask) {
  SaveShard order;
  order.set_attempt(3);
  state.add_shard_order(order);
  state.on_directive(directive(1));
  EXPECT_EQ(next().kind, Kind::enter);
  EXPECT_EQ(saved, 3u);
}

TEST_F(RankStateTest, ARankGoesWhenItIsReleasedAndNotBefore) {
  Stop stop;
  stop.set_want_parameters(true);
  state.end(stop);
  EXPECT_EQ(next().kind, Kind::none);
  EXPECT_EQ(resumed, 0);
  EXPECT_EQ(state.parameters_wanted(), 0u);
  EXPECT_FALSE(state.is_released());
  state.begin_session();
  EXPECT_EQ(state.parameters_wanted(), std::nullopt) << "the next controller says so again";
  EXPECT_FALSE(state.wait_for_release());
  stop.set_want_parameters(false);
  state.end(stop);
  EXPECT_TRUE(state.is_released());
  EXPECT_TRUE(state.wait_for_release());
  state.lose_controller();
  EXPECT_FALSE(state.has_to_join_again()) << "it has been released";
}

TEST_F(RankStateTest, TheEndOfTheStreamDoesNotHideThatTheStateIsLost) {
  Stop stop;
  stop.set_reason(kStateIsLost);
  state.end(stop);
  state.lose_controller();
  stop.set_reason("the controller is gone");
  state.end(stop);
  EXPECT_TRUE(state.has_to_join_again());
}

}  // namespace
}  // namespace orrery::live
