// Fabric over gRPC streams: each rank listens at an address, and opens a stream to every rank to
// which it sends. send_to() never waits for a reader; the end of a stream wakes all waiting
// threads, and closes the links of that rank too, so that all ranks learn of a death. Collectives
// between ranks of one machine use memory that both have mapped (shared_memory.hpp); the stream
// between them announces and protects it: it carries the token, mutual TLS if enabled, and the news
// of a lost rank.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "live/fabric/joining_fabric.hpp"
#include "live/transport/secrets.hpp"

namespace orrery::live {

/// Fabric of live runs on CPUs.
class GrpcFabric : public JoiningFabric {
 public:
  /// Listens at `address` ("unix:/path" or "host:port") as rank `rank`, which is below `ranks`.
  /// Refuses links without knowledge of `secrets`. Throws an environment Error if it cannot listen
  /// or lacks the memory for the links.
  GrpcFabric(std::uint32_t rank, std::uint32_t ranks, const std::string& address,
             const Secrets& secrets);
  /// Listens for a rank that learns its number later, through connect_ranks(). Throws an
  /// environment Error if it cannot listen. Before connect_ranks() messages and sums are invalid,
  /// which is not checked; abort() makes the later connect_ranks() throw.
  GrpcFabric(const std::string& address, const Secrets& secrets);
  /// Closes the links, so that operations of the other ranks throw.
  ~GrpcFabric() override;

  /// Returns the listening address, with the real port instead of 0.
  const std::string& address() const override;
  /// Sends everything through streams, as if every rank had its own machine. Call before
  /// connect_next() or connect_ranks().
  void disable_shared_memory();

  /// Opens the link to the next rank, whose address is `addresses[rank + 1]`, or `addresses[0]` for
  /// the last rank; links to other ranks open when they are used. Does nothing for one rank. Blocks
  /// until the next rank listens, any link breaks, or abort() is called. Call after construction
  /// with a rank number, once, before any operation, with an address for each rank; connect_ranks()
  /// contains it. Throws FabricBroken if a link has broken or abort() was called.
  void connect_next(const std::vector<std::string>& addresses);
  /// Connects as rank `rank` of `addresses.size()` ranks; `rank` is below that number. Incoming
  /// links that arrived earlier wait until this call. Call once, only after construction without a
  /// rank number. Throws FabricBroken, as connect_next(); throws an environment Error if this
  /// machine lacks the memory for the links.
  void connect_ranks(std::uint32_t rank, const std::vector<std::string>& addresses) override;
  /// Limits the sending rate; each piece waits until this and the previous pieces would have left.
  void set_link_rate(double bytes_per_second) override;

  /// Returns the rank number of the constructor or of connect_ranks(); 0 before.
  std::uint32_t rank() const override;
  /// Returns the number of ranks; 0 before connect_ranks().
  std::uint32_t ranks() const override;
  /// Sums as Fabric::all_reduce(). Throws FabricBroken once any rank of the fabric is gone or
  /// abort() was called, and an internal Error for an algorithm of the table to which
  /// objection_to() objects. all_reduce_integers() throws the same.
  void all_reduce(std::span<float> values) override;
  void all_reduce_integers(std::span<std::int64_t> values) override;
  void use_collectives(const CollectiveTable& table) override;
  CollectiveAlgorithm algorithm(double bytes) const override;
  /// Sends as Fabric::send_to(). Throws FabricBroken once any rank of the fabric is gone or abort()
  /// was called, and std::out_of_range unless `rank` is below ranks(). A rank that has destroyed
  /// its fabric is gone, also after a normal end.
  void send_to(std::uint32_t rank, std::span<const std::byte> bytes) override;
  /// Receives as Fabric::receive_from(); returns at once for empty `bytes`. Throws FabricBroken
  /// once any rank of the fabric, not only `rank`, is gone or abort() was called, even if the bytes
  /// have arrived, and if the message is larger than `bytes`; throws std::out_of_range as
  /// send_to().
  void receive_from(std::uint32_t rank, std::span<std::byte> bytes) override;
  /// Returns sent bytes: messages of streams with their prefix, hellos and pings too, and bytes
  /// through shared memory.
  std::uint64_t bytes_sent() const override;
  double seconds_sending() const override;
  /// Breaks the fabric as Fabric::abort(), and so the fabrics of all other ranks. Before
  /// connect_ranks() it makes that call throw, unless this rank is alone. From any thread.
  void abort(const std::string& reason) override;
  /// Returns the newest round trip in seconds, which sums measure; 0 before the first answer.
  double round_trip() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace orrery::live
