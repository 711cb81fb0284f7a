// The ways to sum vectors over ranks, as pure algorithms over links between any two of them: ring,
// tree, halving-doubling. Which one runs is the caller's choice, from a table that all ranks share.
// In each the order of summation is fixed by the number of ranks and values alone, and all ranks
// end with the same bits; the orders of two algorithms differ. Knows nothing of the transport.
//
// Ring (large vectors): 2 (n - 1) hops, each with 1/n of the bytes: every link is always busy.
// Halving-doubling: 2 log2(n) hops; small vectors are not cut, which takes log2(n). Tree: up to
// rank 0 and down again, in pieces; few messages, but inner ranks carry more than others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "traces/training/collective.hpp"

namespace orrery::live {

/// Where bytes go that arrive: `take(target, source, bytes)` puts whole units of `unit` bytes in
/// place. Both are aligned to a unit.
struct Inflow {
  using Take = void (*)(std::byte* target, const std::byte* source, std::size_t bytes);
  std::span<std::byte> bytes;
  Take take;
  std::size_t unit;
};

/// What an algorithm needs of its transport.
class Links {
 public:
  virtual ~Links() = default;
  /// Sends `out` to rank `to` while `in` is filled by what rank `from` sends; returns when both are
  /// done. Either may be empty. Bytes of one pair arrive in the order in which they were sent. A
  /// transport may take `out` in pieces, and wait with them until the receiver has taken some.
  virtual void exchange(std::uint32_t to, std::span<const std::byte> out, std::uint32_t from,
                        Inflow in) = 0;
};

/// Below so many bytes halving-doubling sends whole vectors in half as many hops.
inline constexpr std::size_t kWholeBytes = 16 * 1024;

/// What stands against a policy's table where ranks sum by these algorithms, in words; empty:
/// nothing. Rules of other kinds are never reached there.
std::string objection_to(const CollectiveTable& table);
/// What `table` says of an all-reduce of so many bytes, or what is fastest here where it says
/// nothing: halving-doubling for what is small, else the ring.
CollectiveAlgorithm choose_all_reduce(const CollectiveTable& table, double bytes,
                                      std::uint32_t ranks);

/// Replaces `values` by their sum over the `ranks` ranks that call this with the same algorithm:
/// one of those above.
void all_reduce(Links& links, CollectiveAlgorithm algorithm, std::uint32_t rank,
                std::uint32_t ranks, std::span<float> values);
void all_reduce(Links& links, CollectiveAlgorithm algorithm, std::uint32_t rank,
                std::uint32_t ranks, std::span<std::int64_t> values);

}  // namespace orrery::live
