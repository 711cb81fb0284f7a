#include "traces/jobs/label.hpp"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace orrery {
namespace {

TEST(Label, EqualTextsAreKeptOnce) {
  const std::string text = "vc-7";
  const Label a = text, b = "vc-7", c = "vc-8";
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  EXPECT_EQ(&a.str(), &b.str());
  EXPECT_EQ(a.str(), text);
  EXPECT_TRUE(a < c);
  EXPECT_FALSE(c < a);
  EXPECT_FALSE(a < b);
}

TEST(Label, NothingIsTheEmptyText) {
  const Label none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none, Label(""));
  EXPECT_EQ(none.str(), "");
  EXPECT_TRUE(none < Label("a"));
}

TEST(Label, ThreadsThatMeetAgree) {
  std::vector<std::vector<Label>> made(4);
  std::vector<std::thread> threads;
  for (auto& mine : made) {
    threads.emplace_back([&mine] {
      for (int i = 0; i < 2000; ++i) mine.emplace_back("label " + std::to_string(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : made) EXPECT_EQ(mine, made.front());
}

}  // namespace
}  // namespace orrery
