#include "traces/chakra/trace_fold.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/traces/chakra_sample.hpp"
#include "tests/traces/sample_cluster.hpp"
#include "traces/chakra/chakra_reader.hpp"

namespace orrery {
namespace {

using namespace testing;

ChakraTrace trace_of(const std::vector<std::string>& files, const std::string& groups = {}) {
  ChakraFolder folder("t");
  for (std::uint32_t rank = 0; rank < files.size(); ++rank) {
    folder.add_rank(rank, fmt::format("t.{}.et", rank), files[rank]);
  }
  if (!groups.empty()) folder.set_groups("t.json", groups);
  return folder.finish_trace();
}

FoldedTrace fold(const std::vector<std::string>& files, const std::string& groups = {},
                 bool apart = false) {
  return fold_trace(trace_of(files, groups), sample_cluster(2), apart);
}

std::string refusal(const std::vector<std::string>& files, const std::string& groups = {}) {
  try {
    fold(files, groups);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.what();
  }
  return "accepted";
}

TEST(TraceFold, EqualRanksAreOneClassAndTheirGroupsOneTeam) {
  const auto rank = [](const char* group) {
    return file_of({compute(0, 5), collective(1, chakra::ALL_REDUCE, 64, group, {0})});
  };
  const FoldedTrace folded =
      fold({rank("1"), rank("1"), rank("2"), rank("2")}, R"({"1": [0, 1], "2": [2, 3]})");
  ASSERT_EQ(folded.classes.size(), 1u);
  EXPECT_EQ(folded.classes[0].members.size(), 4u);
  EXPECT_EQ(folded.teams, (std::vector<std::vector<std::uint32_t>>{{0, 1}}));
  ASSERT_EQ(folded.collectives.size(), 1u);
  EXPECT_EQ(folded.collectives[0].ops.size(), 1u);
  EXPECT_EQ(fold({rank("1"), rank("1")}, R"({"1": [0, 1]})", true).classes.size(), 2u);
}

TEST(TraceFold, AClassIsSplitWhereItsMembersMeetDifferentClasses) {
  // Ranks 0 and 1 run the same program, but only rank 0's partner is slow.
  const auto rank = [](const char* group, std::uint64_t micros) {
    return file_of({compute(0, micros), collective(1, chakra::ALL_REDUCE, 64, group, {0})});
  };
  const std::string groups = R"({"1": [0, 2], "2": [1, 3]})";
  EXPECT_EQ(fold({rank("1", 5), rank("2", 5), rank("1", 5), rank("2", 5)}, groups).classes.size(),
            1u);
  const FoldedTrace folded = fold({rank("1", 5), rank("2", 5), rank("1", 9), rank("2", 5)}, groups);
  ASSERT_EQ(folded.classes.size(), 3u);
  EXPECT_EQ(folded.class_of, (std::vector<std::uint32_t>{0, 1, 2, 1}));
}

TEST(TraceFold, AClassIsSplitWhereItsGroupsSpreadDifferently) {
  std::vector<std::string> files;
  for (int rank = 0; rank < 10; ++rank) {
    const char* const group = rank < 2 ? "1" : rank == 2 || rank == 9 ? "2" : "3";
    files.push_back(file_of({collective(1, chakra::ALL_REDUCE, 64, group)}));
  }
  // Group 2 spans both nodes of eight, group 1 one of them; group 3 is larger.
  const FoldedTrace folded =
      fold(files, R"({"1": [0, 1], "2": [2, 9], "3": [3, 4, 5, 6, 7, 8]})");
  EXPECT_EQ(folded.classes.size(), 3u);
  EXPECT_EQ(folded.class_of[2], folded.class_of[9]);
}

TEST(TraceFold, ARingOfMessagesIsOneClassThatSendsToItself) {
  std::vector<std::string> files;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    files.push_back(file_of({message(0, true, (rank + 1) % 4, 8),
                             message(1, false, (rank + 3) % 4, 8)}));
  }
  const FoldedTrace folded = fold(files);
  ASSERT_EQ(folded.classes.size(), 1u);
  ASSERT_EQ(folded.sends.size(), 1u);
  EXPECT_EQ(folded.sends[0].pairs.size(), 4u);
  EXPECT_EQ(folded.sends[0].pairs[3], (std::pair<std::uint32_t, std::uint32_t>{3, 0}));
}

TEST(TraceFold, MessagesOfOneTagAreMatchedInTheOrderOfTheirIds) {
  const FoldedTrace folded =
      fold({file_of({message(7, true, 1, 16, 5), message(3, true, 1, 8, 5)}),
            file_of({message(1, false, 0, 8, 5), message(2, false, 0, 16, 5)})});
  ASSERT_EQ(folded.sends.size(), 2u);
  EXPECT_EQ(folded.sends[0].bytes, 16u);
  EXPECT_EQ(folded.sends[0].to, (ClassOp{1, 1}));
}

TEST(TraceFold, WhatDoesNotMatchIsRefusedInsteadOfWaitingForEver) {
  const std::string none = file_of({compute(0, 1)});
  EXPECT_NE(refusal({file_of({message(4, true, 1, 8, 2)}), none})
                .find("node 4 of rank 0 sends to rank 1 with tag 2"), std::string::npos);
  EXPECT_NE(refusal({none, file_of({message(4, false, 0, 8, 2)})})
                .find("node 4 of rank 1 receives from rank 0"), std::string::npos);
  EXPECT_NE(refusal({file_of({message(1, true, 1, 8)}), file_of({message(2, false, 0, 9)})})
                .find("sends 8 bytes to node 2 of rank 1, which receives 9"), std::string::npos);
  const std::string one = file_of({collective(1, chakra::ALL_REDUCE, 8)});
  EXPECT_NE(refusal({one, none}).find("rank 1 never takes part"), std::string::npos);
  EXPECT_NE(refusal({one, file_of({collective(1, chakra::ALL_GATHER, 8)})}).find("ALL_GATHER"),
            std::string::npos);
  EXPECT_NE(refusal({one, file_of({collective(1, chakra::ALL_REDUCE, 8),
                                   collective(2, chakra::ALL_REDUCE, 8)})})
                .find("calls 1 collectives"), std::string::npos);
  EXPECT_NE(refusal(std::vector<std::string>(17, none)).find("17 ranks"), std::string::npos);
}

TEST(TraceFold, DifferentSizesOfOneCollectiveAreWarnedAbout) {
  const FoldedTrace folded = fold({file_of({collective(1, chakra::ALL_TO_ALL, 8)}),
                                   file_of({collective(1, chakra::ALL_TO_ALL, 32)})});
  EXPECT_EQ(folded.collectives[0].bytes, 32u);
  EXPECT_EQ(folded.warnings.size(), 1u);
}

}  // namespace
}  // namespace orrery
