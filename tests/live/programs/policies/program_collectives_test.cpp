#include "live/programs/policies/program_collectives.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "core/files/temporary_folder.hpp"
#include "live/nccl/report_sender.hpp"

namespace orrery::live {
namespace {

class ProgramCollectivesTest : public testing::Test {
 protected:
  std::string content_of(const std::string& file) const {
    std::ifstream in(folder.path_of(file));
    return {std::istreambuf_iterator<char>(in), {}};
  }

  TemporaryFolder folder{"orrery-collectives-test"};
  ProgramCollectives collectives{folder.path_of("collectives"), folder.path_of("nccl")};
  const CollectiveTable ring{
      {.kind = CollectiveKind::all_reduce, .algorithm = CollectiveAlgorithm::ring}};
};

TEST_F(ProgramCollectivesTest, PlansHaveFilesOfTheirOwn) {
  EXPECT_EQ(collectives.write_plan({}), "table 1");
  EXPECT_EQ(collectives.write_plan(ring), "table 2");
  EXPECT_EQ(content_of("collectives.1"), "orrery-collectives 1\nfrom 0\n");
  EXPECT_EQ(content_of("collectives.2"), "orrery-collectives 1\nfrom 0\nall_reduce 0 0 ring\n");
  EXPECT_FALSE(collectives.has_common_table());
}

TEST_F(ProgramCollectivesTest, TheCommonTableIsWrittenOnceInAnAttempt) {
  collectives.write_common_table(&ring);
  collectives.write_common_table(nullptr);
  EXPECT_EQ(content_of("collectives"), "orrery-collectives 1\nfrom 0\nall_reduce 0 0 ring\n");
  EXPECT_TRUE(collectives.has_common_table());
  collectives.begin_attempt();
  EXPECT_FALSE(std::filesystem::exists(folder.path_of("collectives")));
  collectives.write_common_table(nullptr);
  EXPECT_EQ(content_of("collectives"), "orrery-collectives 1\nfrom 0\n");
}

TEST_F(ProgramCollectivesTest, ReportsAreRanksThatLoadNcclAndSamples) {
  ReportSender sender(folder.path_of("nccl").c_str());
  sender.add_report(OpenReport{1});
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    sender.add_report(CollectiveReport{.communicator = 1,
                                       .sequence = 1,
                                       .rank = rank,
                                       .ranks = 2,
                                       .kind = CollectiveKind::all_gather,
                                       .bytes = 64,
                                       .algorithm = {},
                                       .duration_ns = 1000});
  }
  sender.send_reports();
  collectives.read_reports();
  EXPECT_EQ(collectives.loaded_ranks(), std::set<std::size_t>{1});
  const auto samples = collectives.drain_samples(7);
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].kind, CollectiveKind::all_gather);
  EXPECT_EQ(samples[0].step, 7u);
  collectives.begin_attempt();
  EXPECT_TRUE(collectives.loaded_ranks().empty());
}

}  // namespace
}  // namespace orrery::live
