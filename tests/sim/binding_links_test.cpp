#include "sim/binding_links.hpp"

#include <gtest/gtest.h>

namespace orrery {
namespace {

using Flows = std::vector<std::vector<LinkLoad>>;
using Places = std::vector<std::uint32_t>;

BindingLinks bind(const Flows& flows, const std::vector<double>& bandwidth,
                  const std::set<std::uint32_t>& pinned = {}) {
  return binding_links(flows, static_cast<std::uint32_t>(bandwidth.size()),
                       [&](LinkId link) { return bandwidth[link.value]; }, pinned);
}

TEST(BindingLinks, LinksThatConstrainAlikeAreOne) {
  const BindingLinks bound = bind({{{{0}, 2}, {{1}, 2}}, {{{0}, 1}, {{1}, 1}}}, {50, 50});
  ASSERT_EQ(bound.links.size(), 1u);
  EXPECT_EQ(bound.links[0].link, LinkId{0});
  EXPECT_EQ(bound.of_flow, (std::vector<Places>{{0, 0}, {0}}));
}

TEST(BindingLinks, OnlyTheTightestOfAFlowAloneStays) {
  const BindingLinks bound = bind({{{{0}, 1}, {{1}, 4}, {{2}, 1}}}, {50, 100, 30});
  ASSERT_EQ(bound.links.size(), 1u);
  EXPECT_EQ(bound.links[0].link, LinkId{1});
  EXPECT_EQ(bound.of_flow[0], (Places{0, 0, 0, 0}));
}

TEST(BindingLinks, LinkWithRoomForAllOfItsFlowsIsLeftOut) {
  // Both flows are held to 10 elsewhere; 25 is enough for them, 15 is not.
  const Flows flows{{{{0}, 1}, {{2}, 1}}, {{{1}, 1}, {{2}, 1}}};
  EXPECT_EQ(bind(flows, {10, 10, 25}).links.size(), 2u);
  EXPECT_EQ(bind(flows, {10, 10, 15}).links.size(), 3u);
}

TEST(BindingLinks, PinnedLinksStayAndLimitNobodyElse) {
  const BindingLinks bound = bind({{{{0}, 1}, {{1}, 1}}}, {50, 10}, {1});
  ASSERT_EQ(bound.links.size(), 2u);
  EXPECT_EQ(bound.pinned.at(1), 1u);
}

TEST(BindingLinks, FlowWithoutLinksHasNone) {
  const BindingLinks bound = bind({{}, {{{0}, 1}}}, {50});
  EXPECT_TRUE(bound.of_flow[0].empty());
  EXPECT_EQ(bound.of_flow[1], Places{0});
}

}  // namespace
}  // namespace orrery
