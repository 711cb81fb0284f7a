#include "live/run/checkpoints/save_events.hpp"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

/// A checkpoint after every fourth step, of two ranks.
class SaveEventsTest : public ::testing::Test {
 protected:
  SaveEventsTest() {
    Scenario& scenario = *request_.mutable_scenario();
    scenario.mutable_job()->mutable_model()->set_builtin("language-model");
    scenario.mutable_job()->set_sequence_length(32);
    scenario.mutable_checkpoints()->set_folder(path_);
    scenario.mutable_checkpoints()->set_every(4);
    scenario.mutable_checkpoints()->set_keep(2);
    std::filesystem::remove_all(path_);
  }
  ~SaveEventsTest() override { std::filesystem::remove_all(path_); }

  const std::string path_ = ::testing::TempDir() + "orrery_save_events." + std::to_string(getpid());
  const Text text_{std::vector<std::uint8_t>(2000, 'a')};
  RunRequest request_;
};

TEST_F(SaveEventsTest, ACheckpointThatFailsIsToldOnceWithTheTimeSinceItsCommit) {
  RunCheckpoints checkpoints(request_, text_);
  checkpoints.open();
  SaveEvents saves(checkpoints);
  checkpoints.plan(2, {0, 1});  // none follows that step
  saves.on_commit(3, 50);
  checkpoints.plan(3, {0, 1});
  saves.on_commit(4, 100);
  checkpoints.record_lost_rank(1);  // its shard is lost too
  std::vector<SaveDone> told;
  for (int i = 0; i < 1000 && told.empty(); ++i) {
    told = saves.drain_events(130);
    if (told.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].step, 4u);
  EXPECT_FALSE(told[0].durable);
  EXPECT_EQ(told[0].took, 30);
  EXPECT_TRUE(saves.drain_events(140).empty());
}

}  // namespace
}  // namespace orrery::live
