// Encoding of a Piece (data.proto) with data, between memory and gRPC's slices, without a message
// in between: the wire's bytes are protobuf's, with `data` last, but sent bytes are copied only
// once and received bytes stay in their slices. Called by the fabric, from the threads that own the
// piece.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "live/data.grpc.pb.h"

namespace orrery::live {

/// Name of Neighbour.Link of data.proto, which both ends serve and call without generated code.
inline constexpr char kLinkMethod[] = "/orrery.live.Neighbour/Link";

/// Received bytes, in the slices of their arrival.
class PieceData {
 public:
  /// Returns the number of bytes that have not been taken.
  std::size_t size() const { return size_; }
  /// Fills `out` with the next bytes and removes them; `out` must not be larger than size(), which
  /// is not checked.
  void take_bytes(std::span<std::byte> out);

 private:
  friend bool read_piece(grpc::ByteBuffer& wire, Piece& piece, PieceData& data);
  int next_byte();  ///< -1: end

  std::vector<grpc::Slice> slices_;
  std::size_t slice_ = 0, offset_ = 0, size_ = 0;
};

/// Returns the piece that carries a copy of `bytes`.
grpc::ByteBuffer data_piece(std::span<const std::byte> bytes, bool direct);
/// Returns the encoding of any other piece.
grpc::ByteBuffer other_piece(const Piece& piece);
/// Decodes a received piece, and empties `wire`: `piece` is without its data, which is in `data`.
/// Returns false if the bytes are no piece; `piece` and `data` have no meaning then.
bool read_piece(grpc::ByteBuffer& wire, Piece& piece, PieceData& data);

}  // namespace orrery::live
