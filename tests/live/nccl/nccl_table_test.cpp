#include "live/nccl/nccl_table.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

using Kind = CollectiveKind;
using Algorithm = CollectiveAlgorithm;

TEST(NcclTable, RulesBecomeThePluginsAndWhatNcclLacksIsLeftToIt) {
  const CollectiveTable table{
      {.kind = Kind::all_reduce, .from_bytes = 0, .from_ranks = 2, .algorithm = Algorithm::ring},
      {.kind = Kind::all_reduce, .from_bytes = 1e6, .algorithm = Algorithm::tree},
      {.kind = Kind::all_gather, .algorithm = Algorithm::nvls},
      {.kind = Kind::all_reduce, .from_bytes = 5, .algorithm = Algorithm::halving_doubling},
      {.kind = Kind::all_reduce, .from_bytes = 6, .algorithm = Algorithm::automatic},
      {.kind = Kind::all_to_all, .algorithm = Algorithm::ring},
      {.kind = Kind::all_reduce, .algorithm = Algorithm::tree, .from_nodes = 2}};
  EXPECT_EQ(print_tuner_table(tuner_table_of(table)),
            "orrery-collectives 1\nfrom 0\nall_reduce 0 2 ring\nall_reduce 1000000 0 tree\n"
            "all_gather 0 0 nvls\nall_reduce 5 0 automatic\nall_reduce 6 0 automatic\n");
}

TEST(NcclTable, ATableWithoutRulesTakesBackWhatHeldBefore) {
  EXPECT_EQ(print_tuner_table(tuner_table_of({})), "orrery-collectives 1\nfrom 0\n");
}

class TunerFile : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path); }
  const std::string path = testing::TempDir() + "orrery_table." + std::to_string(getpid());
};

TEST_F(TunerFile, IsReplacedWholeAndOnlyWhenItChanges) {
  const TunerTable one = tuner_table_of({{.kind = Kind::all_reduce, .algorithm = Algorithm::ring}});
  write_tuner_file(path, one);
  const auto first = std::filesystem::last_write_time(path);
  std::ifstream open_before(path);
  write_tuner_file(path, one);
  EXPECT_EQ(std::filesystem::last_write_time(path), first);
  write_tuner_file(path, tuner_table_of({}));
  // A reader with the old file open reads the old table to its end.
  const std::string old(std::istreambuf_iterator<char>(open_before), {});
  EXPECT_EQ(parse_tuner_table(old), one);
  std::ifstream now(path);
  EXPECT_EQ(parse_tuner_table(std::string(std::istreambuf_iterator<char>(now), {})),
            tuner_table_of({}));
  EXPECT_FALSE(std::filesystem::exists(path + ".new"));
}

TEST_F(TunerFile, APlaceThatCannotBeWrittenIsAnError) {
  EXPECT_THROW(write_tuner_file("/no/such/folder/table", {}), Error);
}

}  // namespace
}  // namespace orrery::live
