#include "live/programs/group_book.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

TEST(GroupBook, TheFirstGroupOfEachKindHasALine) {
  GroupBook book;
  const std::string first = book.record_message({"group", "gloo:0:0-1-2-3#0", "default_pg", "4"});
  EXPECT_EQ(first.find("group default_pg (4 ranks): carries all-reduce, broadcast"), 0u) << first;
  EXPECT_NE(first.find("not reduce-scatter, all-to-all, send and receive"), std::string::npos);
  EXPECT_EQ(book.record_message({"group", "gloo:0:0-1-2-3#0", "default_pg", "4"}), "");
  EXPECT_EQ(book.record_message({"group", "nccl:0:0-1-2-3#0", "default_pg", "4"}), "");
  EXPECT_EQ(book.record_message({"group", "gloo:1:0-1#0", "mesh_shard", "2"}),
            "group mesh_shard (2 ranks): as default_pg");
  EXPECT_EQ(book.record_message({"group", "gloo:2:2-3#0", "mesh_shard", "2"}), "");
  EXPECT_EQ(book.record_message({"group", "gloo:3:2#0", "mesh_pipeline", "1"}), "");
  ASSERT_EQ(book.kinds().size(), 2u);
  EXPECT_EQ(book.kinds()[0].keys.size(), 1u);  // both backends of one group
  EXPECT_EQ(book.kinds()[1].keys.size(), 2u);
}

TEST(GroupBook, TheTierHasALineWhenItBeginsAndWhenItEnds) {
  GroupBook book;
  EXPECT_EQ(book.drain_tier_line(4, false), "");
  book.record_message({"group", "gloo:0:0-1-2-3#0", "default_pg", "4"});
  EXPECT_EQ(book.drain_tier_line(4, false).find("tier T0: the other ranks complete or repeat"), 0u);
  EXPECT_EQ(book.drain_tier_line(4, false), "");
  book.record_message({"group", "gloo:1:0-1#0", "mesh_shard", "2"});
  book.record_message({"sharded", "gloo:1:0-1#0", "reduce_scatter"});
  EXPECT_EQ(book.drain_tier_line(4, false), "") << "the other replica goes on";
  GroupBook restarts = book;
  for (GroupBook* each : {&book, &restarts}) {
    each->record_message({"sharded", "gloo:0:0-1-2-3#0", "all_to_all"});
  }
  EXPECT_EQ(book.drain_tier_line(4, false).find("no tier: no loss may interrupt all_to_all"), 0u);
  EXPECT_EQ(restarts.drain_tier_line(4, true).find("tier T1 in place of T0"), 0u);
  EXPECT_EQ(book.drain_tier_line(4, false), "");
}

TEST(GroupBook, TheFirstUncarriedOperationOfAKindHasALine) {
  GroupBook book;
  book.record_message({"group", "gloo:0:0-1-2-3#0", "default_pg", "4"});
  book.record_message({"group", "gloo:1:0-1#0", "mesh_shard", "2"});
  book.record_message({"group", "gloo:2:2-3#0", "mesh_shard", "2"});
  EXPECT_EQ(book.record_message({"sharded", "gloo:2:2-3#0", "reduce_scatter"}),
            "group mesh_shard (2 ranks): used for reduce_scatter, so the loss of a rank ends its "
            "other ranks");
  EXPECT_EQ(book.record_message({"sharded", "gloo:1:0-1#0", "all_to_all"}), "");
  EXPECT_EQ(book.record_message({"sharded", "gloo:9:3#0", "send"}), "");  // a group of one rank
  EXPECT_EQ(book.kinds()[0].uncarried_operation, "");
  EXPECT_EQ(book.kinds()[1].uncarried_operation, "reduce_scatter");
}

}  // namespace
}  // namespace orrery::live
