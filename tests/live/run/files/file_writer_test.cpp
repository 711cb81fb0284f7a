#include "live/run/files/file_writer.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <semaphore>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLongEnough{10'000}, kMoment{20};

/// HungDisk that hangs until it is released; owned by the jobs, which may outlive the test.
struct HungDisk {
  std::counting_semaphore<> released{0};
  std::atomic<int> jobs = 0;
};

TEST(FileWriter, CarriesOutAllJobsInOrder) {
  const auto order = std::make_shared<std::vector<int>>();
  FileWriter writer(kLongEnough);
  for (int i = 0; i < 100; ++i) writer.add_job([order, i] { order->push_back(i); });
  ASSERT_TRUE(writer.wait_until_idle(kLongEnough));
  ASSERT_EQ(order->size(), 100u);
  EXPECT_TRUE(std::is_sorted(order->begin(), order->end()));
}

TEST(FileWriter, AHungJobDelaysNeitherItsCallerNorTheEndForLong) {
  const auto disk = std::make_shared<HungDisk>();
  {
    FileWriter writer(kMoment);
    EXPECT_FALSE(writer.run_job([disk] { disk->released.acquire(); }, kMoment));
    writer.add_job([disk] { ++disk->jobs; });
    EXPECT_FALSE(writer.wait_until_idle(kMoment));
  }
  disk->released.release();
  EXPECT_EQ(disk->jobs, 0) << "a job that has not begun at the end is dropped";
}

TEST(FileWriter, ASlowDiskGetsTheNewestJobOfANameAlone) {
  const auto disk = std::make_shared<HungDisk>();
  const auto texts = std::make_shared<std::vector<std::string>>();
  FileWriter writer(kLongEnough);
  writer.add_job([disk] { disk->released.acquire(); });
  for (const char* text : {"old", "newer", "newest"}) {
    writer.add_job("status", [texts, text] { texts->push_back(text); });
    writer.add_job("other", [disk] { ++disk->jobs; });
  }
  disk->released.release();
  ASSERT_TRUE(writer.wait_until_idle(kLongEnough));
  EXPECT_EQ(*texts, std::vector<std::string>{"newest"});
  EXPECT_EQ(disk->jobs, 1);
}

TEST(FileWriter, ADestructorWithTimeWaitsForAllJobs) {
  const auto disk = std::make_shared<HungDisk>();
  {
    FileWriter writer(kLongEnough);
    for (int i = 0; i < 10; ++i) writer.add_job([disk] { ++disk->jobs; });
  }
  EXPECT_EQ(disk->jobs, 10);
}

}  // namespace
}  // namespace orrery::live
