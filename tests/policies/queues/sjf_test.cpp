#include "policies/queues/sjf.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/policies/queues/queue_harness.hpp"

namespace orrery {
namespace {

TEST(Sjf, ShortestFirstTiesInOrderOfSubmission) {
  QueueHarness queue("sjf", 1, 4);
  queue.submit_job(4, 50);
  queue.submit_job(4, 20);
  queue.submit_job(4, 20);
  queue.submit_job(4, 30);
  EXPECT_EQ(queue.ask_policy(), (Started{1}));
  queue.end(1);
  EXPECT_EQ(queue.ask_policy(), (Started{2}));
  queue.end(2);
  queue.submit_job(4, 10);
  EXPECT_EQ(queue.ask_policy(), (Started{4}));
}

TEST(Sjf, TheShortestBlocksTheRest) {
  QueueHarness queue("sjf", 1, 4);
  queue.submit_job(3, 10);
  EXPECT_EQ(queue.ask_policy(), (Started{0}));
  queue.submit_job(2, 5);
  queue.submit_job(1, 6);
  EXPECT_EQ(queue.ask_policy(), Started{});
}

TEST(Sjf, RefusesAStateThatIsNotItsOwn) { EXPECT_THROW(SjfPolicy().load("x"), Error); }

}  // namespace
}  // namespace orrery
