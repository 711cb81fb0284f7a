// A Piece (data.proto) that carries data, between memory and gRPC's slices without a message in
// between: the wire's bytes are protobuf's, with `data` last, but what is sent is copied once and
// what arrives stays in the slices into which it was read. The fabric calls it, from the threads
// that own the piece.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "live/data.grpc.pb.h"

namespace orrery::live {

/// Neighbour.Link of data.proto, which both ends serve and call by their own means.
inline constexpr char kLinkMethod[] = "/orrery.live.Neighbour/Link";

/// Bytes that arrived, in the slices in which they did.
class PieceData {
 public:
  std::size_t size() const { return size_; }
  /// Fills `out` with the next bytes; not more than there are.
  void take(std::span<std::byte> out);

 private:
  friend bool read_piece(grpc::ByteBuffer& wire, Piece& piece, PieceData& data);
  int next_byte();  ///< -1: there is none

  std::vector<grpc::Slice> slices_;
  std::size_t slice_ = 0, offset_ = 0, size_ = 0;
};

/// The piece that carries `bytes`; they are copied.
grpc::ByteBuffer data_piece(std::span<const std::byte> bytes, bool direct);
/// Any other.
grpc::ByteBuffer other_piece(const Piece& piece);
/// Takes apart what arrived: `piece` is without its data, which is in `data`. False if it is no
/// piece.
bool read_piece(grpc::ByteBuffer& wire, Piece& piece, PieceData& data);

}  // namespace orrery::live
