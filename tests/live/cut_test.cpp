// Connections of a run are cut by a proxy between its processes: who is cut off is not lost.
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "tests/live/live_run.hpp"
#include "tests/live/socket_proxy.hpp"

namespace orrery::live {
namespace {

const std::vector<std::string> kSettings{"run.steps=40"};

/// Calls the function a second after `count` connections have come through the proxy.
template <class What>
std::jthread once_connected(SocketProxy& proxy, std::size_t count, What what) {
  return std::jthread([&proxy, count, what] {
    if (!eventually([&] { return proxy.connections() >= count; })) return;
    std::this_thread::sleep_for(std::chrono::seconds(1));
    what(proxy);
  });
}

void expect_whole(const Report& report, const Report& calm) {
  EXPECT_EQ(report.steps_completed(), calm.steps_completed());
  EXPECT_EQ(report.micro_batches_lost(), 0u);
  EXPECT_EQ(report.micro_batches_repeated(), 0u);
  EXPECT_EQ(report.parameters_sha256(), calm.parameters_sha256());
}

/// A run that nothing happens to. Not of a SetUpTestSuite: where that throws, the tests count as
/// skipped and not as failed.
const Report& calm_run() {
  static const Report report = run_in_worker(kProgram, request(kSettings));
  return report;
}

TEST(Cut, ABrokenLinkBetweenTwoRanksIsMadeAnew) {
  const Report& calm = calm_run();
  SocketProxy proxy("rank-2.0-1");
  const auto cutter = once_connected(proxy, 1, [](SocketProxy& each) { each.cut_connection(0); });
  const Report report = run_in_worker(kProgram, request(kSettings));
  ASSERT_GE(proxy.connections(), 1u);
  EXPECT_TRUE(proxy.has_seen("rank-2.0-2")) << "a new epoch has new links";
  expect_whole(report, calm);
  EXPECT_EQ(report.failures_size(), 0);
  expect_nothing_left();
}

TEST(Cut, ARankWhoseControlStreamBreaksComesBack) {
  const Report& calm = calm_run();
  SocketProxy proxy("controller");
  const auto cutter = once_connected(proxy, 4, [](SocketProxy& each) { each.cut_connection(1); });
  const Report report = run_in_worker(kProgram, request(kSettings));
  EXPECT_EQ(proxy.connections(), 5u);
  expect_whole(report, calm);
  EXPECT_EQ(report.failures_size(), 0);
  expect_nothing_left();
}

TEST(Cut, ARankThatCannotBeHeardIsReplacedAfterTheTimeout) {
  const Report& calm = calm_run();
  SocketProxy proxy("controller");
  const auto cutter = once_connected(proxy, 4, [](SocketProxy& each) { each.mute_connection(2); });
  const Report report = run_in_worker(kProgram, request({"run.steps=40"}));
  expect_whole(report, calm);
  ASSERT_EQ(report.failures_size(), 1);
  EXPECT_NE(report.failures(0).cause().find("sent no heartbeat for 1.0 s"), std::string::npos)
      << report.failures(0).cause();
  expect_nothing_left();
}

}  // namespace
}  // namespace orrery::live
