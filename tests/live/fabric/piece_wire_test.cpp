#include "live/fabric/piece_wire.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"

namespace orrery::live {
namespace {

std::string random_bytes(Rng& rng, std::size_t size) {
  std::string out(size, '\0');
  for (char& byte : out) byte = static_cast<char>(rng.below(256));
  return out;
}

std::string flat(const grpc::ByteBuffer& wire) {
  grpc::Slice slice;
  EXPECT_TRUE(wire.DumpToSingleSlice(&slice).ok());
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

/// `bytes` as they may arrive: in slices of any size, empty ones too.
grpc::ByteBuffer cut(Rng& rng, const std::string& bytes) {
  std::vector<grpc::Slice> slices;
  for (std::size_t begin = 0; begin < bytes.size();) {
    const std::size_t size =
        std::min<std::size_t>(rng.below(rng.below(2) == 0 ? 4 : 3000), bytes.size() - begin);
    slices.emplace_back(bytes.data() + begin, size);
    begin += size;
  }
  return {slices.data(), slices.size()};
}

/// Takes all data in steps of random size.
std::string take_all(Rng& rng, PieceData& data) {
  std::string out;
  while (data.size() > 0) {
    std::string part(1 + rng.below(data.size()), '\0');
    data.take_bytes(std::as_writable_bytes(std::span(part)));
    out += part;
  }
  return out;
}

constexpr std::size_t kSizes[] = {0, 1, 127, 128, 16'383, 16'384, 300'000};

TEST(PieceWire, DataIsProtobufsOnTheWire) {
  Rng rng(1);
  for (const std::size_t size : kSizes) {
    for (const bool direct : {false, true}) {
      const std::string bytes = random_bytes(rng, size);
      Piece piece;
      ASSERT_TRUE(piece.ParseFromString(flat(data_piece(std::as_bytes(std::span(bytes)), direct))));
      EXPECT_EQ(piece.kind_case(), Piece::kData);
      EXPECT_EQ(piece.data(), bytes);
      EXPECT_EQ(piece.direct(), direct);
    }
  }
}

TEST(PieceWire, DataArrivesWholeHoweverItIsCut) {
  Rng rng(2);
  for (const std::size_t size : kSizes) {
    for (int turn = 0; turn < 20; ++turn) {
      const std::string bytes = random_bytes(rng, size);
      const bool direct = rng.below(2) == 0;
      grpc::ByteBuffer wire =
          cut(rng, flat(data_piece(std::as_bytes(std::span(bytes)), direct)));
      Piece piece;
      PieceData data;
      ASSERT_TRUE(read_piece(wire, piece, data));
      EXPECT_EQ(piece.kind_case(), Piece::kData);
      EXPECT_EQ(piece.direct(), direct);
      ASSERT_EQ(data.size(), size);
      EXPECT_EQ(take_all(rng, data), bytes);
    }
  }
}

TEST(PieceWire, OtherPiecesArriveAsTheyAre) {
  Rng rng(3);
  Piece hello, ping;
  hello.mutable_hello()->set_rank(3);
  hello.mutable_hello()->set_token("secret");
  ping.set_ping(12345678901234);
  for (const Piece& each : {hello, ping}) {
    grpc::ByteBuffer wire = cut(rng, flat(other_piece(each)));
    Piece piece;
    piece.set_direct(true);  // field of the previous piece
    PieceData data;
    ASSERT_TRUE(read_piece(wire, piece, data));
    EXPECT_EQ(piece.SerializeAsString(), each.SerializeAsString());
    EXPECT_EQ(data.size(), 0u);
  }
}

TEST(PieceWire, WhatIsNoPieceIsRefused) {
  Rng rng(4);
  const std::string whole = flat(data_piece(std::as_bytes(std::span("some data")), true));
  std::vector<std::string> wrong{"\x12\x05" "four", "\x12\x03" "four", "\x12", "\x20",
                                 "\x20\x01\x12", "\x0a\x05x", whole + "x", "\x18\x01" + whole,
                                 "\x12" + std::string(9, '\xff') + "\x01"};
  for (std::size_t size = 1; size < whole.size(); ++size) {
    if (size != 2) wrong.push_back(whole.substr(0, size));
  }
  for (const std::string& each : wrong) {
    grpc::ByteBuffer wire = cut(rng, each);
    Piece piece;
    PieceData data;
    EXPECT_FALSE(read_piece(wire, piece, data)) << testing::PrintToString(each);
  }
}

/// Random bytes are decoded exactly as by protobuf.
TEST(PieceWire, RandomBytesHarmNothing) {
  Rng rng(5);
  for (int turn = 0; turn < 20'000; ++turn) {
    std::string bytes = random_bytes(rng, 1 + rng.below(40));
    constexpr char kTags[] = {0x0a, 0x12, 0x18, 0x20};
    if (turn % 2 == 0) bytes[0] = kTags[rng.below(4)];
    if (turn % 4 == 0 && bytes.size() > 1) bytes[1] = static_cast<char>(bytes.size() - 2);
    grpc::ByteBuffer wire = cut(rng, bytes);
    Piece piece, protobufs;
    PieceData data;
    if (!read_piece(wire, piece, data)) continue;
    ASSERT_TRUE(protobufs.ParseFromString(bytes)) << testing::PrintToString(bytes);
    EXPECT_EQ(piece.kind_case(), protobufs.kind_case());
    EXPECT_EQ(take_all(rng, data), protobufs.data());
  }
}

}  // namespace
}  // namespace orrery::live
