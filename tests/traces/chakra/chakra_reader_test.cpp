#include "traces/chakra/chakra_reader.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/random.hpp"
#include "tests/data.hpp"
#include "tests/traces/chakra_sample.hpp"

namespace orrery {
namespace {

using namespace testing;


ChakraTrace fold_all(const std::vector<std::string>& files, const std::string& groups = {}) {
  ChakraFolder folder("t");
  for (std::uint32_t rank = 0; rank < files.size(); ++rank) {
    folder.add_rank(rank, fmt::format("t.{}.et", rank), files[rank]);
  }
  if (!groups.empty()) folder.set_groups("t.json", groups);
  return folder.finish_trace();
}

std::string refused(const std::vector<std::string>& files, const std::string& groups = {}) {
  try {
    fold_all(files, groups);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.what();
  }
  return "accepted";
}

TEST(ChakraReader, RanksThatDifferOnlyInWhomTheyTalkToShareAProgram) {
  const auto rank = [](const std::string& group, std::int64_t peer, std::uint64_t base) {
    return file_of({compute(base, 3), collective(base + 1, chakra::ALL_REDUCE, 64, group, {base}),
                    message(base + 2, peer > 1, peer > 1 ? peer : peer, 8, peer, {base + 1})});
  };
  const ChakraTrace trace = fold_all({rank("1", 2, 0), rank("1", 3, 40), rank("2", 0, 7),
                                      rank("2", 1, 9)}, R"({"1": [0, 1], "2": [2, 3]})");
  EXPECT_EQ(trace.programs.size(), 2u);  // senders and receivers
  EXPECT_EQ(trace.ranks[0].program, trace.ranks[1].program);
  EXPECT_EQ(trace.ranks[2].program, trace.ranks[3].program);
  EXPECT_EQ(trace.ranks[1].first_id, 40u);
  EXPECT_EQ(trace.groups, (std::vector<std::vector<std::uint32_t>>{{0, 1}, {2, 3}}));
  EXPECT_EQ(trace.ranks[3].peers, std::vector<std::uint32_t>{1});
  EXPECT_EQ(trace.nodes, 12u);
}

TEST(ChakraReader, DependenciesMayPointForward) {
  const ChakraTrace trace = fold_all({file_of({compute(5, 1, {9}), compute(9, 1)})});
  EXPECT_EQ(trace.programs[0].after, std::vector<std::uint32_t>{1});
  EXPECT_EQ(trace.programs[0].ops[0].after_end, 1u);
  EXPECT_TRUE(trace.warnings.empty());
}

TEST(ChakraReader, DanglingDependenciesAreDroppedWithOneWarning) {
  const std::string file = file_of({compute(5, 1, {3}), compute(6, 1, {5, 4})});
  const ChakraTrace trace = fold_all({file, file});
  EXPECT_EQ(trace.programs[0].after, std::vector<std::uint32_t>{0});
  ASSERT_EQ(trace.warnings.size(), 1u);
  EXPECT_NE(trace.warnings[0].find("4 dependencies"), std::string::npos);
  EXPECT_NE(trace.warnings[0].find("node 5 of t.0.et waits for node 3"), std::string::npos);
}

TEST(ChakraReader, ControlDependenciesGiveWayToTheData) {
  chakra::Node outer = compute(1, 1, {2});
  outer.add_ctrl_deps(0);
  chakra::Node inner = compute(2, 1);
  inner.add_ctrl_deps(1);
  const ChakraTrace trace = fold_all({file_of({compute(0, 1), outer, inner})});
  EXPECT_EQ(trace.programs[0].after, (std::vector<std::uint32_t>{2, 0}));
  ASSERT_EQ(trace.warnings.size(), 1u);
  EXPECT_NE(trace.warnings[0].find("1 control dependencies"), std::string::npos);
}

TEST(ChakraReader, DamagedGraphsAreRefusedByNode) {
  EXPECT_NE(refused({file_of({compute(5, 1, {6}), compute(6, 1, {7}), compute(7, 1, {6})})})
                .find("waits for itself"), std::string::npos);
  EXPECT_NE(refused({file_of({compute(5, 1), compute(5, 1)})}).find("node 5 is in the file twice"),
            std::string::npos);
  EXPECT_NE(refused({file_of({message(1, true, 3, 8)})}).find("no rank 3"), std::string::npos);
  EXPECT_NE(refused({file_of({message(1, true, 0, 8)})}).find("sends to itself"),
            std::string::npos);
}

TEST(ChakraReader, CommunicatorsComeFromTheSideFileOrMetadataOrMeanAll) {
  const std::string all = file_of({collective(1, chakra::ALL_REDUCE, 8)});
  EXPECT_EQ(fold_all({all, all}).groups, (std::vector<std::vector<std::uint32_t>>{{0, 1}}));
  chakra::Node node = make_node(0, chakra::METADATA_NODE);
  node.mutable_inputs()->set_values(R"([{"pg_name": "7", "ranks": [1, 0]}])");
  const std::string own = file_of({node, collective(1, chakra::ALL_REDUCE, 8, "7")});
  EXPECT_EQ(fold_all({own, own}).groups, (std::vector<std::vector<std::uint32_t>>{{1, 0}}));

  const std::string named = file_of({collective(1, chakra::ALL_REDUCE, 8, "7")});
  EXPECT_NE(refused({named, named}).find("'7' is used but defined nowhere"), std::string::npos);
  EXPECT_NE(refused({named, named}, R"({"7": [1]})").find("rank 0 uses communicator '7' without"),
            std::string::npos);
  EXPECT_NE(refused({named, named}, R"({"7": [0, 5]})").find("has rank 5"), std::string::npos);
  EXPECT_NE(refused({named, named}, R"({"7": [0, 0]})").find("a rank twice"), std::string::npos);
}

TEST(ChakraReader, OneFileServesManyRanksUnlessItNamesOne) {
  ChakraFolder folder("t");
  folder.add_rank(0, "t.0.et", file_of({collective(1, chakra::ALL_REDUCE, 8)}));
  const ChakraTrace trace = folder.finish_trace(1000);
  EXPECT_EQ(trace.ranks.size(), 1000u);
  EXPECT_EQ(trace.programs.size(), 1u);
  EXPECT_EQ(trace.groups[0].size(), 1000u);
  ChakraFolder other("t");
  other.add_rank(0, "t.0.et", file_of({message(1, true, 1, 8)}));
  EXPECT_THROW(other.finish_trace(2), Error);
}

TEST(ChakraReader, DamagedBytesAreReadOrRefused) {
  chakra::Node node = compute(3, 5, {1, 2});
  node.add_ctrl_deps(9);
  chakra::Node metadata = make_node(4, chakra::METADATA_NODE);
  metadata.mutable_inputs()->set_values(R"([{"pg_name": "7", "ranks": [1, 0]}])");
  const std::string whole =
      file_of({compute(1, 1), compute(2, 1, {1}), node, metadata,
               collective(5, chakra::ALL_REDUCE, 64, "7", {3}), message(6, true, 1, 8, 2),
               message(7, false, 1, 8, 2)});
  const std::string other = file_of({compute(1, 1)});
  Rng rng(1);
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = whole;
    for (std::uint64_t changes = 1 + rng.below(3); changes > 0; --changes) {
      bytes[rng.below(bytes.size())] = static_cast<char>(rng.below(256));
    }
    if (rng.below(4) == 0) bytes.resize(rng.below(bytes.size()));
    ChakraFolder folder("t");
    try {
      folder.add_rank(0, "t.0.et", bytes);
      folder.add_rank(1, "t.1.et", other);
      folder.finish_trace();
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::bad_input) << "mutation " << i << ": " << error.what();
      ASSERT_TRUE(error.source_place().has_value()) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 5'000);
  EXPECT_LT(refused, 19'000) << "some damage is harmless, such as another name";
}

/// Four ranks of our own on disk: three programs, a communicator in the side file, and in the last
/// rank a dependency on a node that was not recorded.
TEST(ChakraReader, FilesOnDiskAreReadAndFolded) {
  const std::string prefix = ::testing::TempDir() + "/orrery_reader_sample";
  const auto write = [&](const std::string& suffix, const std::string& bytes) {
    std::ofstream(prefix + suffix, std::ios::binary) << bytes;
  };
  const auto stage = [](std::initializer_list<std::uint64_t> after) {
    return file_of({compute(0, 5, after), collective(1, chakra::ALL_REDUCE, 1 << 20, "pair", {0})});
  };
  for (const char* rank : {".0.et", ".1.et"}) write(rank, file_of({compute(0, 9), compute(1, 9)}));
  write(".2.et", stage({}));
  write(".3.et", stage({77}));
  write(".json", R"({"pair": [2, 3]})");
  const ChakraTrace trace = read_chakra({.path = prefix});
  EXPECT_EQ(trace.ranks.size(), 4u);
  EXPECT_EQ(trace.programs.size(), 3u) << "a dependency makes a program, dropped or not";
  EXPECT_EQ(trace.nodes, 8u);
  EXPECT_EQ(trace.groups.size(), 1u);
  ASSERT_EQ(trace.warnings.size(), 1u);
  EXPECT_NE(trace.warnings[0].find("1 dependencies"), std::string::npos) << trace.warnings[0];
  for (const char* file : {".0.et", ".1.et", ".2.et", ".3.et", ".json"}) {
    std::remove((prefix + file).c_str());
  }
}

/// Contents of a file of the test data: ranks, different programs, nodes.
struct Expected {
  const char* path;
  std::size_t ranks, programs;
  std::uint64_t nodes;
};

TEST(ChakraReader, EveryTraceOfTheTestDataIsRead) {
  const std::string data = data_folder("chakra");
  if (data.empty()) GTEST_SKIP() << kNoData;
  for (const Expected& expected :
       {Expected{"gpt64.tar.xz", 64, 4, 167552}, Expected{"stg-gpt8/workload", 8, 2, 2816},
        Expected{"custom-coll/custom_ring_allreduce_8npus_1MB/custom_allreduce", 8, 1, 280},
        Expected{"chakra-tests/tests/data/chakra", 1, 1, 3664},
        Expected{"astra-microbench/all_to_all/16npus_1MB/all_to_all", 16, 1, 16}}) {
    const ChakraTrace trace = read_chakra({.path = data + "/" + expected.path});
    EXPECT_EQ(trace.ranks.size(), expected.ranks) << expected.path;
    EXPECT_EQ(trace.programs.size(), expected.programs) << expected.path;
    EXPECT_EQ(trace.nodes, expected.nodes) << expected.path;
  }
  const ChakraTrace real = read_chakra({.path = data + "/chakra-tests/tests/data/chakra"});
  ASSERT_EQ(real.warnings.size(), 2u);
  EXPECT_NE(real.warnings[0].find("1277 dependencies"), std::string::npos);
}

}  // namespace
}  // namespace orrery
