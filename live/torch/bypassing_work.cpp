#include "live/torch/bypassing_work.hpp"

namespace orrery::live {

BypassingWork::WorkPtr BypassingWork::begin_operation(
    const std::shared_ptr<GroupWorker>& worker, const char* name,
    const std::function<WorkPtr(c10d::Backend&)>& begin) {
  const auto inner = worker->inner_for(name);
  try {
    return c10::make_intrusive<BypassingWork>(worker, begin(*inner));
  } catch (const std::exception&) {
    worker->wait_if_refused();
    throw;
  }
}

bool BypassingWork::wait(std::chrono::milliseconds timeout) {
  try {
    return inner_->wait(timeout);
  } catch (const std::exception&) {
    worker_->wait_if_refused();
    throw;
  }
}

}  // namespace orrery::live
