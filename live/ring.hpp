// Ring all-reduce: a reduce-scatter and an all-gather, both in pieces, so that a rank passes one
// piece on while the next arrives. Knows nothing of the transport.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace orrery::live {

/// What a ring needs of its transport: a stream to the next rank, one from the previous.
class Neighbours {
 public:
  virtual ~Neighbours() = default;
  /// Does not wait for the receiver. `tag` numbers the pieces of a link from 0.
  virtual void send(std::uint64_t tag, std::string_view bytes) = 0;
  /// Blocks until piece `tag` of the previous rank is here.
  virtual std::string receive(std::uint64_t tag) = 0;
};

class Ring {
 public:
  Ring(Neighbours& neighbours, std::uint32_t rank, std::uint32_t ranks)
      : neighbours_(neighbours), rank_(rank), ranks_(ranks) {}
  void all_reduce(std::span<float> values);
  void all_reduce(std::span<std::int64_t> values);

  /// Bytes of one piece: small enough to overlap, large enough that the cost of a message is
  /// hidden.
  static constexpr std::size_t kPieceBytes = 64 * 1024;

 private:
  template <class T>
  void reduce(std::span<T> values);
  template <class T>
  std::span<T> segment(std::span<T> values, std::uint32_t index) const;
  template <class T>
  void exchange(std::span<T> outgoing, std::span<T> incoming, bool add);

  Neighbours& neighbours_;
  std::uint32_t rank_, ranks_;
  std::uint64_t sent_ = 0, received_ = 0;
};

}  // namespace orrery::live
