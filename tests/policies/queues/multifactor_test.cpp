#include "policies/queues/multifactor.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/policies/queues/queue_harness.hpp"

namespace orrery {
namespace {

TEST(Multifactor, LaterJobsStartIfTheyDoNotDelayTheFirst) {
  QueueHarness queue("multifactor", 1, 4);
  queue.submit_job(3, 100);
  EXPECT_EQ(queue.ask_policy(), (Started{0}));
  queue.submit_job(4, 50);
  queue.submit_job(1, 200);
  EXPECT_EQ(queue.ask_policy(), Started{}) << "it would end after the first job";
  queue.submit_job(1, 100);
  EXPECT_EQ(queue.ask_policy(), (Started{3}));
}

TEST(Multifactor, ExtraGpusMayBeHeldForLonger) {
  QueueHarness queue("multifactor", 1, 4);
  queue.submit_job(2, 100);
  EXPECT_EQ(queue.ask_policy(), (Started{0}));
  queue.submit_job(3, 50);
  queue.submit_job(1, 500);
  queue.submit_job(1, 500);
  EXPECT_EQ(queue.ask_policy(), (Started{2})) << "one of four GPUs is left beside the first job";
}

TEST(Multifactor, UsedTimeIsSavedAndRestored) {
  QueueHarness queue("multifactor", 1, 4);
  queue.submit_job(2, 100);
  queue.ask_policy();
  queue.end(0);
  queue.ask_policy();
  const Archive saved = queue.saved();
  queue.restart_policy(&saved);
  queue.ask_policy();
  EXPECT_EQ(queue.saved(), saved);
  EXPECT_THROW(MultifactorPolicy().load("x"), Error);
}

}  // namespace
}  // namespace orrery
