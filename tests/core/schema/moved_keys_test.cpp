#include "core/schema/moved_keys.hpp"

#include <gtest/gtest.h>

namespace orrery {
namespace {

constexpr std::string_view kScenario = "orrery.Scenario";

TEST(MovedKeys, PathsOfAMovedKeyAreThePresentOnes) {
  EXPECT_EQ(present_path(kScenario, "live.checkpoints"), "checkpoints");
  EXPECT_EQ(present_path(kScenario, "live.checkpoints.every"), "checkpoints.every");
  EXPECT_EQ(present_path(kScenario, "live.checkpoints={folder: a}"), "checkpoints={folder: a}");
  for (const char* path :
       {"live", "live.tls", "checkpoints.every", "live.checkpointsx", "name=live"}) {
    EXPECT_EQ(present_path(kScenario, path), path);
  }
  EXPECT_EQ(present_path("orrery.Topology", "live.checkpoints"), "live.checkpoints");
}

}  // namespace
}  // namespace orrery
