#include "live/run/losses/part_tests.hpp"

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/live/run/fake_ranks.hpp"
#include "tests/policies/toy.hpp"

namespace orrery::live {
namespace {

/// Ranks 0 to 3 on the nodes 0 and 1; node 2 (GPUs 4 and 5) is away from 100 to 200 ns, GPU 3 and
/// GPU 7 too; only node 2 and GPU 3 are tested.
class PartTestsTest : public ::testing::Test {
 protected:
  PartTestsTest() {
    toy::run_on(world_, toy::job());
    for (const std::uint32_t gpu : {3u, 7u}) add().set_gpu(gpu);
    add().set_node(2);
    for (const int tested : {0, 2}) scenario_.mutable_faults(tested)->set_test(1);
  }
  ~PartTestsTest() override { std::filesystem::remove(path_); }

  Fault& add() {
    Fault& fault = *scenario_.add_faults();
    fault.set_at_time(100);
    fault.set_for_(100);
    fault.set_down(true);
    return fault;
  }
  void apply(const std::vector<PartChanged>& changes, Nanos now) {
    for (const PartChanged& each : changes) world_.apply(each, now);
  }

  const std::string path_ = ::testing::TempDir() + "part_tests_test.journal";
  const Cluster cluster_ = toy::cluster(4);
  Scenario scenario_;
  World world_{cluster_};
  Placement placement_{world_, 8};
  FakeRanks ranks_;
};

TEST_F(PartTestsTest, APartStaysLostUntilAProcessOnEachOfItsGpusHasAnswered) {
  Journal journal(path_, "hash");
  const FaultInjector faults(scenario_, cluster_, 8, 0, ranks_, journal);
  const PartTests tests(world_, faults, placement_, ranks_);
  EXPECT_TRUE(tests.part_changes(0, 99).empty());
  apply(tests.part_changes(0, 100), 100);
  EXPECT_EQ(world_.state().parts.size(), 3u);
  EXPECT_TRUE(tests.seats(0, 199).empty()) << "a part that is away is not tested";

  EXPECT_EQ(tests.seats(0, 200), (std::vector<std::uint32_t>{4, 5})) << "GPU 3 is the job's";
  EXPECT_EQ(tests.waiting_seats(1, 0, 200), (std::vector<std::uint32_t>{6, 4, 5}));
  apply(tests.part_changes(0, 200), 200);
  EXPECT_EQ(world_.state().parts.size(), 1u) << "GPU 7 has no test";
  ranks_.mark_only({4}, &RankState::is_answering_spare);
  EXPECT_TRUE(tests.part_changes(0, 300).empty());
  ranks_.mark_only({4, 5}, &RankState::is_answering_spare);
  apply(tests.part_changes(0, 300), 300);
  EXPECT_TRUE(world_.state().parts.empty());
  EXPECT_TRUE(tests.seats(0, 300).empty());
}

}  // namespace
}  // namespace orrery::live
