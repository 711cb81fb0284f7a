#include "live/fabric/all_reduce.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include <Eigen/Core>

#include "core/error.hpp"

namespace orrery::live {
namespace {

/// Up to here halving-doubling is faster than the ring (docs/performance.md).
constexpr double kSmallBytes = 128 * 1024;
/// Bytes that travel up a tree as one piece: small enough that its levels work at the same time.
constexpr std::size_t kTreePiece = 128 * 1024;

template <class T>
void add(std::byte* target, const std::byte* source, std::size_t bytes) {
  using Values = Eigen::Array<T, Eigen::Dynamic, 1>;
  const auto count = static_cast<Eigen::Index>(bytes / sizeof(T));
  Eigen::Map<Values>(reinterpret_cast<T*>(target), count) +=
      Eigen::Map<const Values>(reinterpret_cast<const T*>(source), count);
}

void replace(std::byte* target, const std::byte* source, std::size_t bytes) {
  std::memcpy(target, source, bytes);
}

/// One all-reduce under way on this rank.
template <class T>
class Sum {
 public:
  Sum(Links& links, std::uint32_t rank, std::uint32_t ranks, std::span<T> values)
      : links_(links), rank_(rank), ranks_(ranks), values_(values) {}

  void ring();
  void tree();
  void halving_doubling();

 private:
  using Part = std::span<T>;

  /// Segment `index` of `ranks_` nearly equal ones.
  Part segment(std::uint32_t index) const {
    const std::size_t begin = values_.size() * index / ranks_;
    const std::size_t end = values_.size() * (index + 1) / ranks_;
    return values_.subspan(begin, end - begin);
  }
  void exchange(std::uint32_t to, std::span<const T> out, std::uint32_t from, Part in,
                Inflow::Take take) {
    links_.exchange(to, std::as_bytes(out), from,
                    {.bytes = std::as_writable_bytes(in), .take = take, .unit = sizeof(T)});
  }
  void send(std::uint32_t to, std::span<const T> out) { exchange(to, out, to, {}, replace); }
  void receive(std::uint32_t from, Part in, Inflow::Take take) {
    exchange(from, {}, from, in, take);
  }
  void doubling(std::uint32_t among);
  void halving(std::uint32_t among);

  Links& links_;
  const std::uint32_t rank_, ranks_;
  const Part values_;
};

template <class T>
void Sum<T>::ring() {
  const std::uint32_t next = (rank_ + 1) % ranks_, previous = (rank_ + ranks_ - 1) % ranks_;
  // This rank holds the sum of k + 2 ranks in one segment after round k of the first loop; after
  // the last round segment (rank + 1) is complete, and the second loop passes the complete segments
  // around.
  const auto back = [this](std::uint32_t by) {
    return segment((rank_ + 2 * ranks_ - by) % ranks_);
  };
  for (std::uint32_t round = 0; round + 1 < ranks_; ++round) {
    exchange(next, back(round), previous, back(round + 1), add<T>);
  }
  for (std::uint32_t round = 0; round + 1 < ranks_; ++round) {
    exchange(next, back(round + ranks_ - 1), previous, back(round), replace);
  }
}

/// A binomial tree: a rank's children are that rank plus 1, 2, 4, ... below its lowest set bit.
template <class T>
void Sum<T>::tree() {
  const std::uint32_t reach = rank_ == 0 ? std::bit_ceil(ranks_) : rank_ & (~rank_ + 1);
  const std::uint32_t parent = rank_ - (rank_ == 0 ? 0 : reach);
  const std::size_t piece = kTreePiece / sizeof(T);
  const auto each_piece = [&](const auto& action) {
    for (std::size_t begin = 0; begin < values_.size(); begin += piece) {
      action(values_.subspan(begin, std::min(piece, values_.size() - begin)));
    }
  };
  each_piece([&](Part part) {
    for (std::uint32_t step = 1; step < reach && rank_ + step < ranks_; step *= 2) {
      receive(rank_ + step, part, add<T>);
    }
    if (rank_ != 0) send(parent, part);
  });
  each_piece([&](Part part) {
    if (rank_ != 0) receive(parent, part, replace);
    for (std::uint32_t step = reach / 2; step > 0; step /= 2) {
      if (rank_ + step < ranks_) send(rank_ + step, part);
    }
  });
}

/// Where the ranks are no power of two, those beyond one give their values to a partner first and
/// get the sum from it.
template <class T>
void Sum<T>::halving_doubling() {
  const std::uint32_t among = std::bit_floor(ranks_);
  if (rank_ >= among) {
    send(rank_ - among, values_);
    return receive(rank_ - among, values_, replace);
  }
  const bool has_partner = rank_ + among < ranks_;
  if (has_partner) receive(rank_ + among, values_, add<T>);
  if (values_.size_bytes() <= kWholeBytes) {
    doubling(among);
  } else {
    halving(among);
  }
  if (has_partner) send(rank_ + among, values_);
}

/// Each hop doubles the number of ranks in the sum. Both of a pair add the same two terms.
template <class T>
void Sum<T>::doubling(std::uint32_t among) {
  std::vector<T> own(values_.size());
  for (std::uint32_t step = 1; step < among; step *= 2) {
    std::copy(values_.begin(), values_.end(), own.begin());  // sent bytes must not change
    exchange(rank_ ^ step, own, rank_ ^ step, values_, add<T>);
  }
}

/// Each hop halves the part that a rank sums, until each rank has one complete part; then the same
/// way back.
template <class T>
void Sum<T>::halving(std::uint32_t among) {
  std::vector<std::pair<Part, Part>> halves;  // kept, given
  Part part = values_;
  for (std::uint32_t step = among / 2; step > 0; step /= 2) {
    const Part low = part.first(part.size() / 2), high = part.subspan(part.size() / 2);
    halves.emplace_back((rank_ & step) != 0 ? std::pair{high, low} : std::pair{low, high});
    const auto [kept, given] = halves.back();
    exchange(rank_ ^ step, given, rank_ ^ step, kept, add<T>);
    part = kept;
  }
  for (std::uint32_t step = 1; step < among; step *= 2) {
    const auto [kept, given] = halves.back();
    exchange(rank_ ^ step, kept, rank_ ^ step, given, replace);
    halves.pop_back();
  }
}

template <class T>
void sum_up(Links& links, CollectiveAlgorithm algorithm, std::uint32_t rank, std::uint32_t ranks,
            std::span<T> values) {
  if (ranks == 1) return;
  Sum<T> sum(links, rank, ranks, values);
  switch (algorithm) {
    case CollectiveAlgorithm::ring: return sum.ring();
    case CollectiveAlgorithm::tree: return sum.tree();
    case CollectiveAlgorithm::halving_doubling: return sum.halving_doubling();
    default: ensure(false, "an algorithm that this fabric knows");
  }
}

}  // namespace

std::string objection_to(const CollectiveTable& table) {
  using enum CollectiveAlgorithm;
  const bool fine = std::all_of(table.begin(), table.end(), [](const CollectiveRule& rule) {
    return rule.kind != CollectiveKind::all_reduce || rule.algorithm == automatic ||
           rule.algorithm == ring || rule.algorithm == tree || rule.algorithm == halving_doubling;
  });
  return fine ? "" : "ranks on CPUs sum by ring, tree or halving-doubling";
}

CollectiveAlgorithm choose_all_reduce(const CollectiveTable& table, double bytes,
                                      std::uint32_t ranks) {
  const CollectiveAlgorithm said = look_up(table, CollectiveKind::all_reduce, bytes, ranks, 1,
                                           CollectiveAlgorithm::automatic);
  if (said != CollectiveAlgorithm::automatic) return said;
  return bytes < kSmallBytes ? CollectiveAlgorithm::halving_doubling : CollectiveAlgorithm::ring;
}

void all_reduce(Links& links, CollectiveAlgorithm algorithm, std::uint32_t rank,
                std::uint32_t ranks, std::span<float> values) {
  sum_up(links, algorithm, rank, ranks, values);
}
void all_reduce(Links& links, CollectiveAlgorithm algorithm, std::uint32_t rank,
                std::uint32_t ranks, std::span<std::int64_t> values) {
  sum_up(links, algorithm, rank, ranks, values);
}

}  // namespace orrery::live
