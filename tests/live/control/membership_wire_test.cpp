#include "live/control/membership_wire.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

TEST(MembershipWire, NothingIsLostOnTheWay) {
  const membership::Status status{.from = {3, 2}, .beat = 4, .epoch = 5, .applied = 6,
                                  .whole = false, .linked = true, .broken = true, .reduced = true,
                                  .acknowledged = 7};
  EXPECT_EQ(from_wire(to_wire(status)), status);
  const membership::Directive directive{.to = {1, 2}, .epoch = 3, .number = 4, .committed = 5,
                                        .committed_in = 6, .members = {{0, 1}, {2, 3}},
                                        .source = 7, .share = true, .work = true, .proposed = 8,
                                        .decided = 9};
  EXPECT_EQ(from_wire(to_wire(directive)), directive);
}

}  // namespace
}  // namespace orrery::live
