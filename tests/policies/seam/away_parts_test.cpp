#include "policies/seam/away_parts.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/policies/toy.hpp"
#include "tests/policies/toy_cluster.hpp"

namespace orrery {
namespace {

constexpr Part kGpuOne{PartKind::gpu, 1}, kNodeZero{PartKind::node, 0};

class AwayPartsTest : public ::testing::Test {
 protected:
  AwayPartsTest() { toy::run_on(world_, toy::job()); }

  /// Applies the change of a part, and returns whether it counts.
  bool change(Part part, const PartState& to) {
    const std::vector<Event> events{PartChanged{part, to}};
    world_.apply(events[0], 5);
    return away_.read_changes(toy::seen_of(world_, events, samples_, 5));
  }
  bool see_nothing() { return away_.read_changes(toy::seen_of(world_, none_, samples_, 5)); }

  const std::vector<Event> none_;
  Cluster cluster_ = toy::cluster(4);
  World world_{cluster_};
  NoSamples samples_;
  AwayParts away_;
};

TEST_F(AwayPartsTest, RatesDoNotCount) {
  EXPECT_FALSE(see_nothing());
  EXPECT_FALSE(change(kGpuOne, {.rate = 0.5}));
  EXPECT_FALSE(change(kGpuOne, {.rate = 0.25}));
  EXPECT_FALSE(change(kGpuOne, {}));
}

TEST_F(AwayPartsTest, LossesAnnouncementsAndReturnsCount) {
  EXPECT_FALSE(see_nothing());
  EXPECT_TRUE(change(kGpuOne, {.health = Health::lost, .rate = 0}));
  EXPECT_FALSE(change(kNodeZero, {.rate = 0.5})) << "another part";
  EXPECT_TRUE(change(kGpuOne, {.rate = 0.5})) << "back, and slower";
  EXPECT_FALSE(change(kGpuOne, {})) << "it was back before";
  Removal removal;
  removal.at_step = 20;
  EXPECT_TRUE(change(kNodeZero, {.removal = removal}));
  EXPECT_TRUE(change(kNodeZero, {.rate = 0.5, .removal = removal}));
  EXPECT_TRUE(change(kNodeZero, {}));
  EXPECT_FALSE(see_nothing());
}

TEST_F(AwayPartsTest, TheFirstObservationTellsWhatWasAwayBefore) {
  world_.apply(PartChanged{kGpuOne, {.health = Health::lost, .rate = 0}}, 1);
  EXPECT_FALSE(see_nothing());
  EXPECT_TRUE(change(kGpuOne, {}));
  AwayParts fresh;
  const std::vector<Event> events{PartChanged{kNodeZero, {.rate = 0.5}}};
  world_.apply(events[0], 6);
  EXPECT_TRUE(fresh.read_changes(toy::seen_of(world_, events, samples_, 6)))
      << "the part may have been lost before";
}

TEST_F(AwayPartsTest, ASavedStateContinues) {
  see_nothing();
  change(kGpuOne, {.health = Health::lost, .rate = 0});
  std::string bytes;
  ByteWriter write(bytes);
  away_.save_to(write);
  away_ = {};
  ByteReader read(bytes);
  away_.load_from(read);
  EXPECT_TRUE(read.is_at_end());
  EXPECT_FALSE(change(kNodeZero, {.rate = 0.5}));
  EXPECT_TRUE(change(kGpuOne, {}));
}

}  // namespace
}  // namespace orrery
