// The fabric over which a rank's steps go, which changes with every epoch, and what they have sent
// over this one and those before. One thread uses the fabric and counts; bytes_sent() and
// round_trip() may be asked by any.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "core/ids.hpp"
#include "live/fabric/fabric.hpp"

namespace orrery::live {

class MeteredFabric {
 public:
  /// For what comes; null: none until the next.
  void use(std::shared_ptr<Fabric> fabric);
  Fabric& operator*() const { return *fabric_; }
  Fabric* operator->() const { return fabric_.get(); }

  /// Counts what is sent while it lives: a step's gradients. One at a time.
  class Count {
   public:
    explicit Count(MeteredFabric& fabric);
    ~Count();
    Count(const Count&) = delete;
    Count& operator=(const Count&) = delete;
    std::uint64_t bytes() const;
    /// What the fabric needed to get them out.
    Nanos duration() const;

   private:
    MeteredFabric& fabric_;
    const std::uint64_t from_;
    const double seconds_;
  };

  /// Counted so far, the count under way included.
  std::uint64_t bytes_sent() const;
  /// To the next rank, as the fabric has measured last; nothing without a fabric.
  std::optional<Nanos> round_trip() const;

 private:
  mutable std::mutex mutex_;  // of everything below
  std::shared_ptr<Fabric> fabric_;
  std::uint64_t sent_ = 0;                  ///< by earlier counts
  std::optional<std::uint64_t> sent_from_;  ///< the fabric's own as the count under way began
};

}  // namespace orrery::live
