// Data plane of a trainer: collectives over the ranks of one job. Implemented over gRPC streams and
// shared memory (grpc_fabric; algorithms: all_reduce.hpp) and over NCCL (nccl_fabric). Every rank
// calls the same operations in the same order, one at a time, from one thread; abort() may come
// from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>

#include "traces/workload/collective.hpp"

namespace orrery::live {

/// Error of an operation that cannot complete: any rank of the fabric is gone, a link broke, NCCL
/// failed, abort() was called, a message has another size than agreed, or the fabric lacks the
/// operation.
class FabricBroken : public std::exception {
 public:
  explicit FabricBroken(std::string reason) : reason_(std::move(reason)) {}
  /// Returns the reason.
  const char* what() const noexcept override { return reason_.c_str(); }

 private:
  std::string reason_;
};

/// Collectives and messages between the ranks of a job. A collective blocks until this rank has the
/// result.
class Fabric {
 public:
  virtual ~Fabric() = default;
  /// Number of this rank in the job, from 0. An unconnected fabric has rank 0 of 0 ranks.
  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t ranks() const = 0;  ///< number of ranks in the job
  /// Replaces every rank's `values` by their sum; all ranks pass the same number of values. The
  /// order of summation depends only on the numbers of ranks and values and the algorithm, and all
  /// ranks end with the same bits. One rank alone keeps its values. Call only on a connected
  /// fabric. Throws FabricBroken, also for one rank after abort(), and over gRPC an internal Error
  /// if the table names an algorithm to which objection_to() objects; the values are undefined
  /// then.
  virtual void all_reduce(std::span<float> values) = 0;
  /// Replaces every rank's whole numbers by their sum, as all_reduce(). Throws FabricBroken also if
  /// the fabric sums no whole numbers.
  virtual void all_reduce_integers(std::span<std::int64_t> values);
  /// Sets the table of algorithms for later sums; all ranks must set the same table. Without a rule
  /// the fabric chooses by the numbers of bytes and ranks alone. The table replaces the earlier
  /// one and is not checked; call between two operations. Fabrics without tables ignore it. Throws
  /// an environment Error if the fabric cannot store the table (NCCL).
  virtual void use_collectives(const CollectiveTable&) {}
  /// Returns the algorithm by which all_reduce() sums a buffer of `bytes` bytes on each rank, by
  /// the table or the fabric's own choice; automatic if the fabric does not know. Sends nothing;
  /// call from the thread of the operations.
  virtual CollectiveAlgorithm algorithm(double bytes) const;
  /// Sends bytes to another rank, without waiting for the receiver, except that the first message
  /// may block until the link is open, and a send rate delays the call; bytes of one pair arrive in
  /// the order of sending. `rank` is another rank below ranks(). `bytes` may change after the call.
  /// Call only on a connected fabric. Throws FabricBroken if the fabric has no such links, a rank
  /// is gone (over gRPC any rank) or abort() was called.
  virtual void send_to(std::uint32_t rank, std::span<const std::byte> bytes);
  /// Blocks until bytes of another rank have filled `bytes`, which must have the size of one
  /// send_to() of that rank; `bytes` is undefined after an error. Throws FabricBroken like
  /// send_to().
  virtual void receive_from(std::uint32_t rank, std::span<std::byte> bytes);
  /// Returns all bytes sent by this rank since the construction, including frames, also of failed
  /// operations; 0 if the fabric counts none.
  virtual std::uint64_t bytes_sent() const { return 0; }
  /// Returns the seconds spent on sending so far: the wait for card and network; 0 if the fabric
  /// does not measure them.
  virtual double seconds_sending() const { return 0; }
  /// Wakes a blocked operation of this rank at once; this and all later operations throw
  /// FabricBroken. Only the first reason counts; later calls have no effect. From any thread. Over
  /// gRPC this closes the links of this rank, so that the operations of all other ranks fail too;
  /// NCCL does not tell the other ranks.
  virtual void abort(const std::string& reason) = 0;
  /// Returns the round trip of the newest small message to the next rank, in seconds; 0: none yet.
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
