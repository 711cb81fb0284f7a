#include "policies/queues/fifo_skip.hpp"

#include <gtest/gtest.h>

#include "tests/policies/queues/queue_harness.hpp"

namespace orrery {
namespace {

TEST(FifoSkip, PassesOverWhatDoesNotFitInOrderOfSubmission) {
  QueueHarness queue("fifo-skip", 2, 4);
  queue.submit_job(3, 10);
  queue.submit_job(3, 10);
  EXPECT_EQ(queue.ask_policy(), (Started{0, 1}));
  queue.submit_job(4, 10);
  queue.submit_job(2, 10);  // two GPUs are free, but not in one node
  queue.submit_job(1, 10);
  queue.submit_job(1, 10);
  queue.submit_job(1, 10);
  EXPECT_EQ(queue.ask_policy(), (Started{4, 5}));
  queue.end(1);
  EXPECT_EQ(queue.ask_policy(), (Started{3, 6}));
}

}  // namespace
}  // namespace orrery
