// Algorithms that sum vectors over ranks, as pure functions over links between any two ranks: ring,
// tree, halving-doubling. The caller chooses, from a table that all ranks share. In each algorithm
// the order of summation depends only on the numbers of ranks and values, and all ranks end with
// the same bits; the orders of two algorithms differ. Independent of the transport. Ring (large
// vectors): 2 (n - 1) hops, each with 1/n of the bytes, so every link is always busy.
// Halving-doubling: 2 log2(n) hops; small vectors are not cut, which takes log2(n) hops. Tree: up
// to rank 0 and down again, in pieces; few messages, but inner ranks carry more than others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "traces/workload/collective.hpp"

namespace orrery::live {

/// Receiver of arriving bytes: `take(target, source, bytes)` stores whole units of `unit` bytes.
/// Both are aligned to a unit.
struct Inflow {
  using Take = void (*)(std::byte* target, const std::byte* source, std::size_t bytes);
  std::span<std::byte> bytes;
  Take take;
  std::size_t unit;
};

/// Transport of the algorithms.
class Links {
 public:
  virtual ~Links() = default;
  /// Sends `out` to rank `to` while bytes from rank `from` fill `in`; returns when both are done.
  /// Either may be empty. Bytes of one pair arrive in the order of sending. A transport may send
  /// `out` in pieces, and wait until the receiver has taken some. Throws FabricBroken if the bytes
  /// cannot be sent or received.
  virtual void exchange(std::uint32_t to, std::span<const std::byte> out, std::uint32_t from,
                        Inflow in) = 0;
};

/// Size in bytes below which halving-doubling sends whole vectors in half as many hops.
inline constexpr std::size_t kWholeBytes = 16 * 1024;

/// Returns the objection to a policy's table for ranks that sum with these algorithms; empty if
/// none exists. Rules for other kinds of collectives are never used there.
std::string objection_to(const CollectiveTable& table);
/// Returns the algorithm of `table` for an all-reduce of `bytes` among `ranks` ranks, or the
/// fastest one if the table has no rule or says `automatic`: halving-doubling for small sizes, else
/// the ring. Never returns `automatic`. all_reduce() lacks the algorithm if objection_to() objects
/// to the table.
CollectiveAlgorithm choose_all_reduce(const CollectiveTable& table, double bytes,
                                      std::uint32_t ranks);

/// Replaces `values` by their sum over the `ranks` ranks that call this function with the same
/// algorithm and number of values; does nothing for one rank. `rank` is below `ranks`. Throws an
/// internal Error for an algorithm other than ring, tree and halving-doubling, and errors of
/// `links`, after which the values are undefined.
void all_reduce(Links& links, CollectiveAlgorithm algorithm, std::uint32_t rank,
                std::uint32_t ranks, std::span<float> values);
void all_reduce(Links& links, CollectiveAlgorithm algorithm, std::uint32_t rank,
                std::uint32_t ranks, std::span<std::int64_t> values);

}  // namespace orrery::live
