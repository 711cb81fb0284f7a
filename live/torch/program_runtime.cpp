#include "live/torch/program_runtime.hpp"

#include <chrono>
#include <thread>
#include <utility>

namespace orrery::live {

ProgramRuntime::ProgramRuntime(int descriptor, std::size_t rank, std::string store_path,
                               InnerBuilder build)
    : store_path_(std::move(store_path)), build_(std::move(build)) {
  control_ = std::make_unique<ProgramControl>(
      descriptor, rank, [this](const ProgramEpoch& epoch) { announce_epoch(epoch); },
      [this] { return done_counts(); });
}

std::shared_ptr<GroupWorker> ProgramRuntime::add_group(GroupPlace place) {
  const ProgramEpoch epoch = control_->epoch();
  std::shared_ptr<GroupWorker> group;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    place.key += "#" + std::to_string(created_[place.key]++);
    place.store_path = store_path_;
    group = std::make_shared<GroupWorker>(std::move(place), build_, *control_);
    groups_.push_back(group);
  }
  group->announce_epoch(epoch);
  group->start();
  group->wait_until_settled();
  return group;
}

void ProgramRuntime::leave_run() {
  control_->leave_run();
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& group : groups_) group->abort_inner();
}

c10::intrusive_ptr<c10d::Store> ProgramRuntime::open_store() const {
  return c10::make_intrusive<ProgramStore>(store_path_);
}

void ProgramRuntime::wait_until_settled() {
  for (int attempt = 0; attempt < 100; ++attempt) {
    bool settled = true;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (const auto& group : groups_) settled = settled && group->is_settled();
    }
    if (settled) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void ProgramRuntime::report_step(std::uint64_t step, double input_s) {
  const double now =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  control_->send_fields(
      {"step", std::to_string(step), std::to_string(now), std::to_string(input_s)});
}

void ProgramRuntime::announce_epoch(const ProgramEpoch& epoch) {
  std::vector<std::shared_ptr<GroupWorker>> groups;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    groups = groups_;
  }
  for (const auto& group : groups) group->announce_epoch(epoch);
}

DoneCounts ProgramRuntime::done_counts() {
  std::vector<std::shared_ptr<GroupWorker>> groups;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    groups = groups_;
  }
  DoneCounts counts;
  for (const auto& group : groups) counts[group->group_place().key] = group->done_count();
  return counts;
}

}  // namespace orrery::live
