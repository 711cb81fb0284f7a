#include "live/fabric/egress.hpp"

#include <algorithm>
#include <chrono>

namespace orrery::live {

void Egress::close() {
  const std::scoped_lock lock(mutex_);
  closed_ = true;
  closing_.notify_all();
}

void Egress::wait_for_turn(std::size_t bytes) {
  const double rate = rate_;
  if (rate <= 0) return;
  const auto takes = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(static_cast<double>(bytes) / rate));
  std::unique_lock lock(mutex_);
  free_ = std::max(free_, Clock::now()) + takes;
  closing_.wait_until(lock, free_, [this] { return closed_; });
}

Egress::Turn::Turn(Egress& egress, std::size_t bytes) : egress_(egress), bytes_(bytes) {
  egress_.wait_for_turn(bytes);
}

void Egress::Turn::mark_sent() {
  sent_ = true;
  egress_.bytes_ += bytes_;
}

Egress::Turn::~Turn() {
  if (sent_) egress_.nanos_ += static_cast<std::uint64_t>(since(start_));
}

}  // namespace orrery::live
