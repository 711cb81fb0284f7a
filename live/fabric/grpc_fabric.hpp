// Fabric over gRPC streams: each rank listens at an address, and opens a stream to every rank to
// which it sends. The transport never waits for a reader of send_to(); a stream that ends wakes
// whoever waits, and closes the links of that rank too, so that a death runs through all ranks.
// Collectives between ranks of one machine go through memory that both have mapped
// (shared_memory.hpp), which the stream between them introduces and guards: it carries the token,
// mutual TLS where that is on, and the news that a rank is gone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "live/fabric/joining_fabric.hpp"
#include "live/transport/secrets.hpp"

namespace orrery::live {

class GrpcFabric : public JoiningFabric {
 public:
  /// Listens at `address` ("unix:/path" or "host:port"). Links of whoever does not know `secrets`
  /// are refused. Throws an environment Error if it cannot listen.
  GrpcFabric(std::uint32_t rank, std::uint32_t ranks, const std::string& address,
             const Secrets& secrets);
  /// The same for a rank that learns its place among the others later: see the other connect().
  GrpcFabric(const std::string& address, const Secrets& secrets);
  ~GrpcFabric() override;

  /// Where it listens; port 0 has been replaced.
  const std::string& address() const override;
  /// Sends everything through streams, as if every rank had a machine of its own. Before connect().
  void keep_to_streams();

  /// Opens the link to the next rank, whose address is `addresses[rank + 1]`. Not before all
  /// ranks listen.
  void connect(const std::vector<std::string>& addresses);
  /// The same, as rank `rank` of as many as there are addresses. Links that come before it wait.
  void connect(std::uint32_t rank, const std::vector<std::string>& addresses) override;
  /// Each piece waits until the ones before it would have left.
  void set_link_rate(double bytes_per_second) override;

  std::uint32_t rank() const override;
  std::uint32_t ranks() const override;
  void all_reduce(std::span<float> values) override;
  void all_reduce_integers(std::span<std::int64_t> values) override;
  void use_collectives(const CollectiveTable& table) override;
  CollectiveAlgorithm algorithm(double bytes) const override;
  void send_to(std::uint32_t rank, std::span<const std::byte> bytes) override;
  void receive_from(std::uint32_t rank, std::span<std::byte> bytes) override;
  /// Messages of streams with their prefix, and bytes through shared memory.
  std::uint64_t bytes_sent() const override;
  double seconds_sending() const override;
  void abort(const std::string& reason) override;
  double round_trip() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace orrery::live
