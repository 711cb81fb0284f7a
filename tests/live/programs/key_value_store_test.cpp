#include "live/programs/key_value_store.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

/// Returns the only answer to a request of connection 1, at second 0.
Fields ask(KeyValueStore& store, const Fields& request) {
  const auto answers = store.answer_request(1, request, 0);
  return answers.size() == 1 && answers[0].connection == 1 ? answers[0].fields : Fields{};
}

TEST(KeyValueStore, AnswersAreThoseOfPyTorchsStore) {
  KeyValueStore store;
  EXPECT_EQ(ask(store, {"set", "a", "1"}), (Fields{"ok"}));
  EXPECT_EQ(ask(store, {"get", "100", "a"}), (Fields{"value", "1"}));
  EXPECT_EQ(ask(store, {"add", "n", "3"}), (Fields{"value", "3"}));
  EXPECT_EQ(ask(store, {"add", "n", "-1"}), (Fields{"value", "2"}));
  EXPECT_EQ(ask(store, {"check", "a", "n"}), (Fields{"value", "1"}));
  EXPECT_EQ(ask(store, {"check", "a", "b"}), (Fields{"value", "0"}));
  EXPECT_EQ(ask(store, {"count"}), (Fields{"value", "2"}));
  EXPECT_EQ(ask(store, {"delete", "a"}), (Fields{"value", "1"}));
  EXPECT_EQ(ask(store, {"delete", "a"}), (Fields{"value", "0"}));
  EXPECT_EQ(ask(store, {"compare", "c", "", "x"}), (Fields{"value", "x"}));
  EXPECT_EQ(ask(store, {"compare", "c", "y", "z"}), (Fields{"value", "x"}));
  EXPECT_EQ(ask(store, {"compare", "c", "x", "z"}), (Fields{"value", "z"}));
  EXPECT_EQ(ask(store, {"compare", "d", "y", "z"}), (Fields{"value", "y"}));
  EXPECT_EQ(ask(store, {"compare"}).front(), "error");
  EXPECT_EQ(ask(store, {}).front(), "error");
}

TEST(KeyValueStore, RequestsWaitForTheirKeys) {
  KeyValueStore store;
  EXPECT_TRUE(store.answer_request(1, {"get", "1000", "a"}, 0).empty());
  EXPECT_TRUE(store.answer_request(2, {"wait", "1000", "a", "b"}, 0).empty());
  const auto first = store.answer_request(3, {"set", "a", "v"}, 0.5);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[1].connection, 1);
  EXPECT_EQ(first[1].fields, (Fields{"value", "v"}));
  EXPECT_TRUE(store.expire_requests(0.9).empty());
  const auto late = store.expire_requests(1);
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].connection, 2);
  EXPECT_EQ(late[0].fields, (Fields{"timeout", "1000"}));
}

TEST(KeyValueStore, AClosedConnectionGetsNoAnswer) {
  KeyValueStore store;
  store.answer_request(1, {"wait", "1000", "a"}, 0);
  store.forget_connection(1);
  EXPECT_EQ(store.answer_request(2, {"set", "a", ""}, 0).size(), 1u);
  EXPECT_TRUE(store.expire_requests(5).empty());
}

}  // namespace
}  // namespace orrery::live
