#include "live/fabric/shared_fate.hpp"

#include <utility>

#include "live/fabric/fabric.hpp"

namespace orrery::live {

void SharedFate::on_break(Close close) {
  const std::scoped_lock lock(mutex_);
  if (broken_) return close(why_);
  closes_.push_back(std::move(close));
}

void SharedFate::break_all(const std::string& why) {
  const std::scoped_lock lock(mutex_);
  if (broken_) return;
  why_ = why;
  broken_ = true;
  for (const Close& close : closes_) close(why_);
}

void SharedFate::throw_if_broken() const {
  if (!broken_) return;
  const std::scoped_lock lock(mutex_);
  throw FabricBroken(why_);
}

}  // namespace orrery::live
