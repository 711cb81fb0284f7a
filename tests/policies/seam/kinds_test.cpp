#include "policies/seam/kinds.hpp"

#include <gtest/gtest.h>

#include "policies/seam/decision.hpp"

namespace orrery {
namespace {

using Some = Kinds<Setting>;

TEST(Kinds, AreNamedByType) {
  constexpr Some some = Some::of<Shares, OnLoss>();
  static_assert(some.has<Shares>() && some.has<OnLoss>() && !some.has<CodecRules>());
  EXPECT_TRUE(some.has(Setting{OnLoss{}}));
  EXPECT_FALSE(some.has(Setting{CheckpointPlan{}}));
  EXPECT_TRUE(some.has_index(0));
  EXPECT_FALSE(some.has_index(1));
}

TEST(Kinds, AreSets) {
  const Some a = Some::of<Shares, OnLoss>(), b = Some::of<OnLoss, CodecRules>();
  EXPECT_EQ(a | b, (Some::of<Shares, CodecRules, OnLoss>()));
  EXPECT_EQ(a & b, Some::of<OnLoss>());
  EXPECT_EQ(a - b, Some::of<Shares>());
  EXPECT_TRUE((a - Some::all()).empty());
  EXPECT_TRUE(Some().empty());
  EXPECT_EQ(Some::of<>(), Some());
}

TEST(Kinds, AllIsEveryOneAndUnknownBitsAreKept) {
  for (std::size_t i = 0; i < Some::kCount; ++i) EXPECT_TRUE(Some::all().has_index(i));
  EXPECT_FALSE(Some::all().has_index(Some::kCount));
  const Some odd = Some::from_bits(1u << 30 | 1u);
  EXPECT_EQ(odd.bits(), 1u << 30 | 1u);
  EXPECT_EQ((odd - Some::all()).bits(), 1u << 30);
}

TEST(Kinds, NamesOfTheSeamAreThoseOfItsTypes) {
  EXPECT_EQ(action_names().size(), Kinds<Action>::kCount);
  EXPECT_EQ(setting_names().size(), Some::kCount);
  EXPECT_EQ(action_name(Action{Save{}}), "Save");
  EXPECT_EQ(action_name(Action{Assign{}}), "Assign");
  EXPECT_EQ(setting_name(Setting{CodecRules{}}), "CodecRules");
  EXPECT_EQ(setting_name(Setting{OnLoss{}}), "OnLoss");
}

}  // namespace
}  // namespace orrery
