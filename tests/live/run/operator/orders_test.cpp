#include "live/run/operator/orders.hpp"

#include <fstream>

#include <gtest/gtest.h>

#include "live/run/files/run_folder.hpp"

namespace orrery::live {
namespace {

TEST(Orders, AreReadInTheirOrderAndWhatIsNoneSaysWhy) {
  const RunFolder folder;
  const auto leave = [&folder](const std::string& name, const std::string& text) {
    std::ofstream(folder.path() + "/" + name) << text;
  };
  leave("order-2.json", R"({"verdict": {"decision": 12, "accepted": false, "reason": "not now"}})");
  leave("order-1.json",
        R"({"set": {"policy": "recover", "parameter": "how", "value": "replace"}})");
  leave("order-3.json", R"({"set": {"policy": "recover"}})");
  leave("order-4.json.new", R"({"set")");  // still being written
  leave("status.json", "{}");
  const std::vector<Order> orders = read_orders(folder.path());
  ASSERT_EQ(orders.size(), 3u);
  ASSERT_TRUE(orders[0].set);
  EXPECT_EQ(orders[0].set->policy, "recover");
  EXPECT_EQ(orders[0].set->parameter, "how");
  EXPECT_EQ(orders[0].set->value, "replace");
  ASSERT_TRUE(orders[1].verdict);
  EXPECT_EQ(orders[1].verdict->decision, 12u);
  EXPECT_FALSE(orders[1].verdict->accepted);
  EXPECT_EQ(orders[1].verdict->reason, "not now");
  EXPECT_FALSE(orders[2].set || orders[2].verdict);
  EXPECT_NE(orders[2].fault.find("parameter"), std::string::npos) << orders[2].fault;
}

TEST(Orders, ARemovalHasAPartAndTimesThatArePossible) {
  const RunFolder folder;
  const auto order = [&folder](const std::string& drain) {
    std::ofstream(folder.path() + "/order-1.json") << R"({"drain": {)" << drain << "}}";
    return read_orders(folder.path()).at(0);
  };
  const Order whole = order(R"("part": "node", "index": 1, "in_s": 30, "for_s": 60, "test": true)");
  ASSERT_TRUE(whole.removal) << whole.fault;
  EXPECT_EQ(whole.removal->part, (Part{PartKind::node, 1}));
  EXPECT_EQ(whole.removal->notice, 30'000'000'000);
  EXPECT_EQ(whole.removal->lasts, 60'000'000'000);
  EXPECT_TRUE(whole.removal->test);
  EXPECT_FALSE(order(R"("part": "gpu", "index": 1, "in_s": 30)").removal->lasts);
  for (const char* wrong :
       {R"("part": "leaf", "index": 1, "in_s": 30)", R"("part": "gpu", "index": 1, "in_s": 0)",
        R"("part": "gpu", "index": 1, "in_s": 1e300)",
        R"("part": "gpu", "index": 1, "in_s": 1, "for_s": -1)", R"("part": "gpu", "in_s": 1)"}) {
    const Order refused = order(wrong);
    EXPECT_FALSE(refused.removal) << wrong;
    EXPECT_NE(refused.fault, "") << wrong;
  }
}

TEST(Orders, AFolderThatIsGoneHoldsNone) { EXPECT_TRUE(read_orders("/nowhere/at/all").empty()); }

}  // namespace
}  // namespace orrery::live
