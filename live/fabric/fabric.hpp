// The data plane as a trainer sees it: collectives over the ranks of one job. Implemented over
// gRPC streams and shared memory (grpc_fabric); the algorithms are all_reduce.hpp. Every rank calls
// the same operations in the same order, one at a time, from one thread; abort() may come from any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>

#include "traces/training/collective.hpp"

namespace orrery::live {

/// An operation that cannot complete because a rank is gone or abort() was called.
class FabricBroken : public std::exception {
 public:
  explicit FabricBroken(std::string reason) : reason_(std::move(reason)) {}
  const char* what() const noexcept override { return reason_.c_str(); }

 private:
  std::string reason_;
};

class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t ranks() const = 0;
  /// Replaces every rank's `values` by their sum. The order of summation is fixed by the number
  /// of ranks and values and the algorithm alone, and all ranks end with the same bits. Throws
  /// FabricBroken.
  virtual void all_reduce(std::span<float> values) = 0;
  /// The same for whole numbers. A fabric that cannot throws FabricBroken.
  virtual void all_reduce_integers(std::span<std::int64_t> values);
  /// What sums from now on are carried out with: the same table on all ranks, or none. Without a
  /// rule the fabric chooses by itself, from the number of bytes and ranks alone.
  virtual void use_collectives(const CollectiveTable&) {}
  /// What sums so many bytes; automatic: the fabric does not say.
  virtual CollectiveAlgorithm algorithm(double bytes) const;
  /// Point to point, between any two ranks: bytes of one pair arrive in the order in which they
  /// were sent; send_to() does not wait for the receiver, receive_from() fills `bytes` whole. A
  /// fabric without such links throws FabricBroken, as both do where the other rank is gone.
  virtual void send_to(std::uint32_t rank, std::span<const std::byte> bytes);
  virtual void receive_from(std::uint32_t rank, std::span<std::byte> bytes);
  /// Everything this rank has sent so far, frames of the messages included, bytes.
  virtual std::uint64_t bytes_sent() const { return 0; }
  /// How long it took to get them out, seconds: what the card and the network make it wait.
  virtual double seconds_sending() const { return 0; }
  /// Wakes a blocked operation at once and makes this and all later ones throw FabricBroken.
  virtual void abort(const std::string& reason) = 0;
  /// Round trip of the newest small message to the next rank and back, seconds; 0: none yet.
  virtual double round_trip() const = 0;
};

inline CollectiveAlgorithm Fabric::algorithm(double) const {
  return CollectiveAlgorithm::automatic;
}
inline void Fabric::all_reduce_integers(std::span<std::int64_t>) {
  throw FabricBroken("this fabric sums no whole numbers");
}
inline void Fabric::send_to(std::uint32_t, std::span<const std::byte>) {
  throw FabricBroken("this fabric has no links between any two ranks");
}
inline void Fabric::receive_from(std::uint32_t, std::span<std::byte>) {
  throw FabricBroken("this fabric has no links between any two ranks");
}

}  // namespace orrery::live
