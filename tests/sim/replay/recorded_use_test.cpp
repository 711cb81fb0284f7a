#include "sim/replay/recorded_use.hpp"

#include <gtest/gtest.h>

#include "tests/sim/logged_job.hpp"

namespace orrery::sim {
namespace {

using test::logged_job;

TraceJob job(std::int64_t start, std::uint32_t gpus, std::int64_t duration,
             const std::string& vc) {
  TraceJob made = logged_job("j", 0, gpus, duration, vc);
  made.recorded_start_s = start;
  return made;
}

TEST(RecordedUse, SaysWhatAWaitLookedLike) {
  RecordedUse use(8);
  use.add(job(0, 6, 100, "a"));    // six of eight until 100
  use.add(job(100, 2, 50, "b"));   // b never has more than two
  use.add(job(150, 2, 100, "b"));
  use.add(logged_job("unknown", 0, 8, 1000, "a"));  // never started in the log
  const TraceJob waits = job(300, 4, 10, "b");
  use.add(waits);  // except for this job
  // 0 to 100: two are free. 100 to 250: six are free, and b would have six: more than ever. Then
  // nobody runs.
  const RecordedUse::Reasons reasons = use.reasons(waits, 0, 300);
  EXPECT_EQ(reasons.full_s, 100);
  EXPECT_EQ(reasons.quota_s, 150);
  EXPECT_EQ(reasons.room_s, 50);
  const RecordedUse::Reasons late = use.reasons(waits, 240, 260);
  EXPECT_EQ(late.quota_s, 10);
  EXPECT_EQ(late.room_s, 10);
  EXPECT_EQ(use.reasons(waits, 10, 10).full_s, 0);
}

}  // namespace
}  // namespace orrery::sim
