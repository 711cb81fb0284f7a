#include "sim/estimates/plan/binding_links.hpp"

#include <functional>

#include <gtest/gtest.h>

namespace orrery::estimates {
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

/// Flows over the `width` links of each of `kinds` kinds, all crossing one more.
Flows wide_flows(std::uint32_t kinds, std::uint32_t width) {
  Flows flows(kinds);
  for (std::uint32_t kind = 0; kind < kinds; ++kind) {
    for (std::uint32_t i = 0; i < width; ++i) flows[kind].push_back({{kind * width + i}, 1});
    flows[kind].push_back({{kinds * width}, width});
  }
  return flows;
}

TEST(KnownFlows, LookOnlyAtLinksOfWhatDiffers) {
  constexpr std::uint32_t kWidth = 5000;
  const Flows flows = wide_flows(2, kWidth);
  int asked = 0;
  const std::function<double(LinkId)> bandwidth = [&](LinkId link) {
    ++asked;
    return link.value == 2 * kWidth ? 20.0 * kWidth : 10.0;
  };
  const KnownFlows known({&flows[0], &flows[1]}, 2 * kWidth + 1, bandwidth);
  EXPECT_EQ(asked, int{2 * kWidth + 1});
  asked = 0;
  // Three links of the first flow, and their use of the common one, become a flow of their own.
  const std::vector<LinkLoad> part{{{7}, 1}, {{8}, 1}, {{9}, 1}, {{2 * kWidth}, 3}};
  const BindingLinks bound = known.bind_links({.flows = 3, .rest = {0, 2},
                                         .parts = {{.flow = 1, .known = 0, .links = &part}},
                                         .changed = {}, .bandwidth = bandwidth, .pinned = {}});
  EXPECT_EQ(asked, 4);
  EXPECT_EQ(bound.links.size(), 4u) << "one of each kind, and the common one";
  EXPECT_EQ(bound.of_flow[0].size(), kWidth - 3 + 1);
  EXPECT_EQ(bound.of_flow[1].size(), 1u + 3);
  EXPECT_EQ(bound.of_flow[2].size(), kWidth + 1u);
}

TEST(BindingLinks, FlowWithoutLinksHasNone) {
  const BindingLinks bound = bind({{}, {{{0}, 1}}}, {50});
  EXPECT_TRUE(bound.of_flow[0].empty());
  EXPECT_EQ(bound.of_flow[1], Places{0});
}

}  // namespace
}  // namespace orrery::estimates
