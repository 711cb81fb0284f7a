#include "live/fabric/shared_memory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"

namespace orrery::live {
namespace {

TEST(Board, AnotherProcessOfThisMachineSeesTheSameMemory) {
  Board own(3);
  const auto seen = Board::open(own.board_place(), 3);
  ASSERT_TRUE(seen);
  own.ring_to(2).free_stretch()[0] = std::byte{42};
  own.ring_to(2).mark_filled(1, true);
  ASSERT_EQ(seen->ring_to(2).filled_stretch().size(), 8u);  // the next message's place
  EXPECT_EQ(seen->ring_to(2).filled_stretch()[0], std::byte{42});
  EXPECT_TRUE(seen->ring_to(1).filled_stretch().empty());
  const std::uint32_t before = own.bell().count();
  seen->bell().ring();
  EXPECT_NE(own.bell().count(), before);
}

TEST(Board, WhatIsNotTheBoardThatWasMeantIsNotOpened) {
  const Board own(3);
  BoardPlace place = own.board_place();
  place.machine += "x";
  EXPECT_FALSE(Board::open(place, 3)) << "another machine";
  place = own.board_place();
  place.mark ^= 1;
  EXPECT_FALSE(Board::open(place, 3)) << "another board";
  EXPECT_FALSE(Board::open(own.board_place(), 4)) << "another number of ranks";
  place = own.board_place();
  place.pid = 1'000'000'000;
  EXPECT_FALSE(Board::open(place, 3)) << "no such process";
  place = own.board_place();
  place.descriptor = open("/dev/zero", O_RDWR | O_CLOEXEC);
  EXPECT_FALSE(Board::open(place, 3)) << "something else";
  close(place.descriptor);
  EXPECT_FALSE(Board::open({}, 3)) << "nothing said";
}

TEST(Board, NobodyCanTakeItsMemoryAway) {
  const Board own(2);
  EXPECT_NE(ftruncate(own.board_place().descriptor, 0), 0);
}

TEST(ByteRing, KeepsOrderAndContentOfMessagesOfAllSizes) {
  Board own(2);
  const auto seen = Board::open(own.board_place(), 2);
  ASSERT_TRUE(seen);
  Rng rng(7);
  std::vector<std::vector<std::byte>> messages;
  for (int i = 0; i < 300; ++i) {
    const std::size_t words = 1 + rng.below(i % 10 == 0 ? 400'000 : 500);
    auto& message = messages.emplace_back(4 * words);
    for (std::size_t at = 0; at < message.size(); at += 64) {
      message[at] = static_cast<std::byte>(rng.below(256));
    }
  }
  std::jthread writer([&] {
    ByteRing& ring = own.ring_to(1);
    for (const auto& message : messages) {
      for (std::size_t done = 0; done < message.size();) {
        const std::uint32_t count = own.bell().count();
        const auto room = ring.free_stretch();
        const std::size_t bytes = std::min(room.size(), message.size() - done);
        if (bytes == 0) {
          own.bell().wait(count);
          continue;
        }
        std::memcpy(room.data(), message.data() + done, bytes);
        done += bytes;
        ring.mark_filled(bytes, done == message.size());
        own.bell().ring();
      }
    }
  });
  ByteRing& ring = seen->ring_to(1);
  for (const auto& message : messages) {
    std::vector<std::byte> got;
    while (got.size() < message.size()) {
      const std::uint32_t count = seen->bell().count();
      const auto there = ring.filled_stretch();
      std::size_t bytes = std::min(there.size(), message.size() - got.size());
      bytes -= bytes % 4;
      if (bytes == 0) {
        seen->bell().wait(count);
        continue;
      }
      got.insert(got.end(), there.begin(), there.begin() + static_cast<std::ptrdiff_t>(bytes));
      ring.mark_emptied(bytes, got.size() == message.size());
      seen->bell().ring();
    }
    ASSERT_EQ(got, message);
  }
}

TEST(Bell, WakesWhoWaits) {
  Board own(2);
  const std::uint32_t before = own.bell().count();
  std::atomic<bool> woken = false;
  std::jthread waiter([&] {
    while (own.bell().count() == before) own.bell().wait(before);
    woken = true;
  });
  EXPECT_FALSE(woken);
  own.bell().ring();
  waiter.join();
  EXPECT_TRUE(woken);
}

}  // namespace
}  // namespace orrery::live
