// Fabric over gRPC streams: each rank listens at an address, and streams to the next rank of the
// ring. The transport never waits for a reader, so a ring cannot lock up; a stream that ends wakes
// whoever waits, and closes the links of that rank too, so that a death runs round the ring.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "live/fabric.hpp"

namespace orrery::live {

class GrpcFabric : public Fabric {
 public:
  /// Listens at `address` ("unix:/path"). Links whose first message does not hold `token` are
  /// refused. Throws an environment Error if it cannot listen.
  GrpcFabric(std::uint32_t rank, std::uint32_t ranks, const std::string& address,
             const std::string& token);
  ~GrpcFabric() override;

  /// Opens the link to the next rank, whose address is `addresses[rank + 1]`. Not before all
  /// ranks listen.
  void connect(const std::vector<std::string>& addresses);

  std::uint32_t rank() const override;
  std::uint32_t ranks() const override;
  void all_reduce(std::span<float> values) override;
  void abort(const std::string& reason) override;
  double round_trip() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace orrery::live
