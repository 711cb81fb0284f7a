#include "live/nccl/tuner_table.hpp"

#include <array>

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

const TunerTable kTable = {
    {.from = 0,
     .rules = {{NcclCollective::all_reduce, 0, 2, NcclAlgorithm::ring, std::nullopt, 0},
               {NcclCollective::all_reduce, 1 << 20, 2, NcclAlgorithm::tree, NcclProtocol::ll128,
                4},
               {NcclCollective::all_reduce, 0, 64, NcclAlgorithm::nvls_tree, std::nullopt, 0}}},
    {.from = 1000, .rules = {{NcclCollective::all_gather, 0, 2, NcclAlgorithm::pat,
                              NcclProtocol::simple, 0}}}};

TEST(TunerTable, WhatIsPrintedIsParsedAgain) {
  EXPECT_EQ(parse_tuner_table(print_tuner_table(kTable)), kTable);
  EXPECT_EQ(parse_tuner_table(print_tuner_table({})), TunerTable{});
  EXPECT_EQ(parse_tuner_table("orrery-collectives 1\n# nothing\n\n  \nfrom 0 # now\n"),
            TunerTable{TunerSection{}});
}

TEST(TunerTable, TheRuleThatACallReachesByRanksThenBytesDecides) {
  const auto algorithm = [](std::uint64_t call, std::uint64_t bytes, std::uint32_t ranks) {
    const TunerRule* rule =
        find_tuner_rule(kTable, call, NcclCollective::all_reduce, bytes, ranks);
    return rule ? static_cast<int>(rule->algorithm) : -1;
  };
  EXPECT_EQ(algorithm(0, 100, 8), static_cast<int>(NcclAlgorithm::ring));
  EXPECT_EQ(algorithm(0, 1 << 20, 8), static_cast<int>(NcclAlgorithm::tree));
  EXPECT_EQ(algorithm(999, 1 << 20, 64), static_cast<int>(NcclAlgorithm::nvls_tree));
  EXPECT_EQ(algorithm(0, 100, 1), -1);
  EXPECT_EQ(algorithm(1000, 100, 8), -1) << "the next section says nothing of all-reduces";
  EXPECT_EQ(find_tuner_rule({}, 0, NcclCollective::all_reduce, 1, 8), nullptr);
}

TEST(TunerTable, AnythingElseIsRefusedWithItsLine) {
  const auto line_of_problem = [](const std::string& text) -> std::string {
    try {
      parse_tuner_table(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      return error.message().substr(0, error.message().find(':'));
    }
    return "";
  };
  const std::string begin = "orrery-collectives 1\nfrom 0\n";
  EXPECT_EQ(line_of_problem(""), "line 1");
  EXPECT_EQ(line_of_problem("orrery-collectives 2\n"), "line 1");
  EXPECT_EQ(line_of_problem("orrery-collectives 1\nall_reduce 0 2 ring\n"), "line 2");
  EXPECT_EQ(line_of_problem(begin + "all_reduce 0 2 rong\n"), "line 3");
  EXPECT_EQ(line_of_problem(begin + "all_reduce 0 2\n"), "line 3");
  EXPECT_EQ(line_of_problem(begin + "all_reduce -1 2 ring\n"), "line 3");
  EXPECT_EQ(line_of_problem(begin + "all_reduce 0 2 ring simple 3 3\n"), "line 3");
  EXPECT_EQ(line_of_problem(begin + "from 0\n"), "line 3");
}

TEST(TunerTable, OnlyWhatNcclCanDoIsPreferred) {
  std::array<float, 6> costs{5, 4, -1, -1, -1, 7};  // two algorithms of three protocols
  EXPECT_TRUE(prefer({.algorithm = NcclAlgorithm::tree, .protocol = {}}, costs, 3));
  EXPECT_EQ(costs, (std::array<float, 6>{5, 0, -1, -1, -1, 7})) << "the cheapest protocol";
  EXPECT_FALSE(prefer({.algorithm = NcclAlgorithm::ring, .protocol = NcclProtocol::ll}, costs, 3));
  EXPECT_TRUE(
      prefer({.algorithm = NcclAlgorithm::ring, .protocol = NcclProtocol::simple}, costs, 3));
  EXPECT_FALSE(prefer({.algorithm = NcclAlgorithm::pat, .protocol = {}}, costs, 3))
      << "an NCCL that does not know it";
  EXPECT_EQ(costs, (std::array<float, 6>{5, 0, -1, -1, -1, 0}));
}

}  // namespace
}  // namespace orrery::live
