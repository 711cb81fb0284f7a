#include "live/group/frames.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

TEST(FrameReader, FramesArriveInPiecesAndTogether) {
  const Fields first{"set", "key", std::string("\0\xFF", 2)}, second{"", "x"};
  const std::string bytes = encode_frame(first) + encode_frame(second) + encode_frame({});
  FrameReader reader;
  for (const char byte : bytes.substr(0, 20)) {
    EXPECT_FALSE(reader.next_frame());
    reader.add_bytes(&byte, 1);
  }
  reader.add_bytes(bytes.data() + 20, bytes.size() - 20);
  EXPECT_EQ(reader.next_frame(), first);
  EXPECT_EQ(reader.next_frame(), second);
  EXPECT_EQ(reader.next_frame(), Fields{});
  EXPECT_FALSE(reader.next_frame());
  EXPECT_FALSE(reader.is_torn());
}

TEST(FrameReader, LengthsThatCannotBeAreTorn) {
  FrameReader huge;
  huge.add_bytes("\xFF\xFF\xFF\x7F", 4);
  EXPECT_FALSE(huge.next_frame());
  EXPECT_TRUE(huge.is_torn());
  FrameReader outside;
  outside.add_bytes("\x05\0\0\0\x09\0\0\0a", 9);
  EXPECT_FALSE(outside.next_frame());
  EXPECT_TRUE(outside.is_torn());
  FrameReader half;
  half.add_bytes("\x02\0\0\0ab", 6);
  EXPECT_FALSE(half.next_frame());
  EXPECT_TRUE(half.is_torn());
}

}  // namespace
}  // namespace orrery::live
