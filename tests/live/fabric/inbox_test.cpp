#include "live/fabric/inbox.hpp"

#include <array>
#include <cstddef>
#include <thread>

#include <gtest/gtest.h>

#include "live/fabric/fabric.hpp"

namespace orrery::live {
namespace {

PieceData piece(std::uint8_t value) {
  const std::array<std::byte, 1> bytes{std::byte{value}};
  grpc::ByteBuffer wire = data_piece(bytes, false);
  Piece header;
  PieceData data;
  EXPECT_TRUE(read_piece(wire, header, data));
  return data;
}

int value_of(PieceData data) {
  std::array<std::byte, 1> bytes{};
  data.take_bytes(bytes);
  return std::to_integer<int>(bytes[0]);
}

TEST(Inbox, BothKindsStayInTheirOrder) {
  Inbox inbox;
  EXPECT_FALSE(inbox.take_collective());
  inbox.put_piece(piece(1), false);
  inbox.put_piece(piece(2), true);
  inbox.put_piece(piece(3), false);
  EXPECT_TRUE(inbox.has_collective());
  EXPECT_EQ(value_of(*inbox.take_collective()), 1);
  EXPECT_EQ(value_of(inbox.wait_for_direct()), 2);
  EXPECT_EQ(value_of(*inbox.take_collective()), 3);
  EXPECT_FALSE(inbox.has_collective());
}

TEST(Inbox, AWaitEndsWithAPieceOrWithTheLinks) {
  Inbox inbox;
  {
    const std::jthread sender([&inbox] { inbox.put_piece(piece(7), true); });
    EXPECT_EQ(value_of(inbox.wait_for_direct()), 7);
  }
  const std::jthread closer([&inbox] { inbox.close("it is gone"); });
  EXPECT_THROW(inbox.wait_for_direct(), FabricBroken);
}

}  // namespace
}  // namespace orrery::live
