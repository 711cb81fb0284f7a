#include "policies/queues/fifo.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/policies/queues/queue_harness.hpp"

namespace orrery {
namespace {

TEST(Fifo, OrderOfSubmissionAndStrictBlocking) {
  QueueHarness queue("fifo", 1, 4);
  queue.submit_job(3, 100);
  queue.submit_job(2, 1);
  queue.submit_job(1, 1);  // would fit, but stands behind
  EXPECT_EQ(queue.ask_policy(), (Started{0}));
  EXPECT_EQ(queue.ask_policy(), Started{});
  queue.end(0);
  EXPECT_EQ(queue.ask_policy(), (Started{1, 2}));
}

TEST(Fifo, RefusesAStateThatIsNotItsOwn) {
  FifoPolicy policy;
  EXPECT_THROW(policy.load("3 apples"), Error);
  policy.load("3");
  Archive archive;
  policy.save(archive);
  EXPECT_EQ(archive, "3");
}

}  // namespace
}  // namespace orrery
