// Fabric of a rank's steps, which changes with every epoch, and the bytes sent over all of its
// fabrics. One thread uses the fabric and counts; bytes_sent() and round_trip() may be called by
// any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "core/ids.hpp"
#include "live/fabric/fabric.hpp"

namespace orrery::live {

/// Current fabric of a rank with a byte meter.
class MeteredFabric {
 public:
  /// Sets the fabric of later steps and releases the earlier one; null: none until the next call.
  /// bytes_sent() goes on. Must not be called while a Count exists.
  void set_fabric(std::shared_ptr<Fabric> fabric);
  /// Returns the fabric, which must be set, not checked; call from the thread that sets it.
  Fabric& operator*() const { return *fabric_; }
  Fabric* operator->() const { return fabric_.get(); }

  /// Counts the bytes sent during its lifetime: the gradients of a step. At most one exists, and
  /// only while the fabric is set and not replaced.
  class Count {
   public:
    /// Starts the count at 0. `fabric` must outlive this object.
    explicit Count(MeteredFabric& fabric);
    /// Adds the count to bytes_sent().
    ~Count();
    Count(const Count&) = delete;
    Count& operator=(const Count&) = delete;
    /// Returns the bytes sent since the construction.
    std::uint64_t bytes() const;
    /// Returns the time that the fabric spent on sending since the construction; 0 if the fabric
    /// does not measure it.
    Nanos duration() const;

   private:
    MeteredFabric& fabric_;
    const std::uint64_t from_;
    const double seconds_;
  };

  /// Returns the bytes of all counts so far, including the current one. Bytes that were sent
  /// outside of a count are not included.
  std::uint64_t bytes_sent() const;
  /// Returns the round trip to the next rank, as last measured, 0 if not measured yet; nothing
  /// without a fabric.
  std::optional<Nanos> round_trip() const;

 private:
  mutable std::mutex mutex_;  // guards everything below
  std::shared_ptr<Fabric> fabric_;
  std::uint64_t sent_ = 0;                  ///< bytes of earlier counts
  /// fabric's own count at the begin of the current count
  std::optional<std::uint64_t> sent_from_;
};

}  // namespace orrery::live
