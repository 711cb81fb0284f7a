#include "live/fabric/piece_wire.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace orrery::live {
namespace {

/// Field number and wire type in one byte, as protobuf has them.
constexpr std::uint8_t kDataTag = Piece::kDataFieldNumber << 3 | 2;
constexpr std::uint8_t kDirectTag = Piece::kDirectFieldNumber << 3;
/// `direct`, and the tag and length of `data`.
constexpr std::size_t kMostPrefix = 2 + 1 + 5;

struct Prefix {
  std::array<std::uint8_t, kMostPrefix> bytes{};
  std::size_t size = 0;
  void add(std::uint8_t byte) { bytes[size++] = byte; }
};

Prefix prefix_of(std::size_t data_bytes, bool direct) {
  Prefix out;
  if (direct) {
    out.add(kDirectTag);
    out.add(1);
  }
  out.add(kDataTag);
  for (; data_bytes >= 0x80; data_bytes >>= 7) {
    out.add(static_cast<std::uint8_t>(data_bytes | 0x80));
  }
  out.add(static_cast<std::uint8_t>(data_bytes));
  return out;
}

/// Protobuf's variable-length number.
template <class Next>
std::size_t next_size(const Next& next) {
  std::size_t size = 0;
  for (int shift = 0; shift <= 28; shift += 7) {
    const int byte = next();
    if (byte < 0) break;
    size |= static_cast<std::size_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return size;
  }
  return SIZE_MAX;  // no bytes
}

}  // namespace

void PieceData::take_bytes(std::span<std::byte> out) {
  size_ -= out.size();
  while (!out.empty()) {
    const grpc::Slice& slice = slices_[slice_];
    const std::size_t bytes = std::min(out.size(), slice.size() - offset_);
    std::memcpy(out.data(), slice.begin() + offset_, bytes);
    out = out.subspan(bytes);
    offset_ += bytes;
    if (offset_ < slice.size()) continue;
    slices_[slice_++] = grpc::Slice();  // frees the slice's memory
    offset_ = 0;
  }
}

/// Lets go of no slice, unlike take(): then only whoever takes the data does, never whoever reads
/// the next piece, whose slices are of the same memory.
int PieceData::next_byte() {
  while (size_ > 0 && offset_ == slices_[slice_].size()) {
    ++slice_;
    offset_ = 0;
  }
  if (size_ == 0) return -1;
  --size_;
  return slices_[slice_].begin()[offset_++];
}

grpc::ByteBuffer data_piece(std::span<const std::byte> bytes, bool direct) {
  const Prefix prefix = prefix_of(bytes.size(), direct);
  const grpc::Slice slices[] = {{prefix.bytes.data(), prefix.size}, {bytes.data(), bytes.size()}};
  return {slices, 2};
}

grpc::ByteBuffer other_piece(const Piece& piece) {
  const grpc::Slice slice(piece.SerializeAsString());
  return {&slice, 1};
}

bool read_piece(grpc::ByteBuffer& wire, Piece& piece, PieceData& data) {
  piece.Clear();
  data = {};
  if (!wire.Dump(&data.slices_).ok()) return false;
  data.size_ = wire.Length();
  const auto next = [&data] { return data.next_byte(); };
  int tag = next();
  if (tag == kDirectTag && next() == 1) {
    piece.set_direct(true);
    tag = next();
  }
  if (tag == kDataTag) {
    piece.set_data("");
    wire.Clear();  // frees the buffer at once
    return next_size(next) == data.size();
  }
  data = {};
  const bool whole = grpc::SerializationTraits<Piece>::Deserialize(&wire, &piece).ok();
  return whole && piece.kind_case() != Piece::kData;
}

}  // namespace orrery::live
