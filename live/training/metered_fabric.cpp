#include "live/training/metered_fabric.hpp"

#include <utility>

namespace orrery::live {

void MeteredFabric::set_fabric(std::shared_ptr<Fabric> fabric) {
  const std::scoped_lock lock(mutex_);
  fabric_.swap(fabric);  // the old one goes when the lock is released
}

MeteredFabric::Count::Count(MeteredFabric& fabric)
    : fabric_(fabric), from_(fabric->bytes_sent()), seconds_(fabric->seconds_sending()) {
  const std::scoped_lock lock(fabric_.mutex_);
  fabric_.sent_from_ = from_;
}

MeteredFabric::Count::~Count() {
  const std::scoped_lock lock(fabric_.mutex_);
  fabric_.sent_ += bytes();
  fabric_.sent_from_.reset();
}

std::uint64_t MeteredFabric::Count::bytes() const { return fabric_->bytes_sent() - from_; }

Nanos MeteredFabric::Count::duration() const {
  return to_nanos(fabric_->seconds_sending() - seconds_);
}

std::uint64_t MeteredFabric::bytes_sent() const {
  const std::scoped_lock lock(mutex_);
  return sent_ + (sent_from_ ? fabric_->bytes_sent() - *sent_from_ : 0);
}

std::optional<Nanos> MeteredFabric::round_trip() const {
  const std::scoped_lock lock(mutex_);
  if (!fabric_) return {};
  return to_nanos(fabric_->round_trip());
}

}  // namespace orrery::live
