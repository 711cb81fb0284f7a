#include "live/group/operation_log.hpp"

#include <chrono>
#include <utility>

namespace orrery::live {

double clock_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::shared_ptr<OperationTimes> OperationLog::add_operation(const std::string& name,
                                                            const std::string& group,
                                                            double bytes) {
  if (!is_logging_) return nullptr;
  const auto times = std::make_shared<OperationTimes>();
  times->name = name;
  times->group = group;
  times->bytes = bytes;
  times->issued_s = clock_s();
  const std::lock_guard<std::mutex> lock(mutex_);
  operations_.push_back(times);
  return times;
}

std::vector<std::shared_ptr<const OperationTimes>> OperationLog::stop_logging() {
  is_logging_ = false;
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(operations_, {});
}

}  // namespace orrery::live
