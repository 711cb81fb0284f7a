#include "live/rank/failure.hpp"

#include <new>
#include <stdexcept>

#include <gtest/gtest.h>

#include "live/training/pace.hpp"
#include "live/training/sharded_optimizer.hpp"

namespace orrery::live {
namespace {

template <class What>
Failed said_of(const What& error) {
  return failure_of(std::make_exception_ptr(error)).failed();
}

TEST(Failure, WhatOnlyThisProcessLacksIsItsOwn) {
  const Failed full = said_of(Error(ErrorKind::environment, "no room"));
  EXPECT_TRUE(full.local());
  EXPECT_EQ(full.reason(), "no room");
  EXPECT_TRUE(said_of(std::bad_alloc()).local());
  EXPECT_EQ(said_of(std::bad_alloc()).kind(), static_cast<std::uint32_t>(ErrorKind::environment));
}

TEST(Failure, WhatEveryRankWouldMeetIsNot) {
  EXPECT_FALSE(said_of(PaceMissed("too slow")).local()) << "a replacement would find the same";
  EXPECT_FALSE(said_of(Error(ErrorKind::bad_input, "wrong")).local());
  EXPECT_EQ(said_of(Error(ErrorKind::bad_input, "wrong")).kind(),
            static_cast<std::uint32_t>(ErrorKind::bad_input));
  const Failed other = said_of(std::runtime_error("odd"));
  EXPECT_FALSE(other.local());
  EXPECT_EQ(other.kind(), static_cast<std::uint32_t>(ErrorKind::internal));
}

TEST(Failure, LostStateIsSaid) {
  const Failed lost = said_of(StateLost("gone"));
  EXPECT_TRUE(lost.state_lost());
  EXPECT_FALSE(lost.local());
  EXPECT_FALSE(said_of(PaceMissed("too slow")).state_lost());
}

}  // namespace
}  // namespace orrery::live
