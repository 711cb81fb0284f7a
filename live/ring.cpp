#include "live/ring.hpp"

#include <algorithm>
#include <cstring>

#include "live/fabric.hpp"

namespace orrery::live {
namespace {

/// Piece `index` of a segment; empty beyond its end.
template <class T>
std::span<T> piece(std::span<T> segment, std::size_t index) {
  constexpr std::size_t kPieceValues = Ring::kPieceBytes / sizeof(T);
  const std::size_t begin = std::min(index * kPieceValues, segment.size());
  return segment.subspan(begin, std::min(kPieceValues, segment.size() - begin));
}

template <class T>
void take(const std::string& bytes, std::span<T> values, bool add) {
  if (bytes.size() != values.size_bytes()) {
    throw FabricBroken("the neighbour cuts its data in another way");
  }
  if (!add) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    T other;
    std::memcpy(&other, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] += other;
  }
}

}  // namespace

/// Segment `index` of `ranks_` nearly equal ones.
template <class T>
std::span<T> Ring::segment(std::span<T> values, std::uint32_t index) const {
  const std::size_t begin = values.size() * index / ranks_;
  const std::size_t end = values.size() * (index + 1) / ranks_;
  return values.subspan(begin, end - begin);
}

template <class T>
void Ring::exchange(std::span<T> outgoing, std::span<T> incoming, bool add) {
  constexpr std::size_t kPieceValues = kPieceBytes / sizeof(T);
  const std::size_t most = std::max(outgoing.size(), incoming.size());
  for (std::size_t i = 0; i * kPieceValues < most; ++i) {
    const auto out = piece(outgoing, i);
    const auto in = piece(incoming, i);
    if (!out.empty()) {
      neighbours_.send(sent_++, {reinterpret_cast<const char*>(out.data()), out.size_bytes()});
    }
    if (!in.empty()) take(neighbours_.receive(received_++), in, add);
  }
}

template <class T>
void Ring::reduce(std::span<T> values) {
  // After round k of the first loop this rank holds the sum of k + 2 ranks in one segment; after
  // the last, segment (rank + 1) is whole, and the second loop passes the whole ones round.
  const auto index = [this](std::uint32_t back) { return (rank_ + 2 * ranks_ - back) % ranks_; };
  for (std::uint32_t round = 0; round + 1 < ranks_; ++round) {
    exchange(segment(values, index(round)), segment(values, index(round + 1)), true);
  }
  for (std::uint32_t round = 0; round + 1 < ranks_; ++round) {
    exchange(segment(values, index(round + ranks_ - 1)), segment(values, index(round)), false);
  }
}

void Ring::all_reduce(std::span<float> values) { reduce(values); }
void Ring::all_reduce(std::span<std::int64_t> values) { reduce(values); }

}  // namespace orrery::live
