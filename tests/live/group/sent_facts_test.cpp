// Messages that a successor of `orrery run` hears anew.
#include "live/group/sent_facts.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

TEST(SentFacts, KeepsTheNewestOfEachKindAndGroup) {
  SentFacts facts;
  const Fields first{"group", "gloo:0:0-1#0", "default_pg", "2"};
  const Fields second{"group", "gloo:0:0-1#1", "other", "2"};
  facts.record_message({"hello", "0", "17"});
  facts.record_message(first);
  facts.record_message({"snapshot", "100", "0.5"});
  facts.record_message(second);
  facts.record_message({"beat"});
  facts.record_message({"sharded", "gloo:0:0-1#0", "reduce_scatter"});
  facts.record_message({"snapshot", "200", "0.4"});
  facts.record_message({"of no kind"});
  const std::vector<Fields> expected{
      first, {"snapshot", "200", "0.4"}, second, {"sharded", "gloo:0:0-1#0", "reduce_scatter"}};
  EXPECT_EQ(facts.messages(), expected);
}

}  // namespace
}  // namespace orrery::live
