// Common part of the fakes of CUDA and of NCCL: a stream is a thread that executes its work in
// order. A cudaStream_t is one of these.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace orrery::live::gpu {

/// Stream of the fake CUDA: a thread with a queue.
class FakeStream {
 public:
  virtual ~FakeStream() = default;
  virtual void run(std::function<void()> work) {
    const std::scoped_lock lock(mutex_);
    work_.push_back(std::move(work));
    changed_.notify_all();
  }
  void synchronize_stream() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return work_.empty(); });
  }

 private:
  void loop(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [this] { return !work_.empty(); })) {
      const std::function<void()> next = work_.front();
      lock.unlock();
      next();
      lock.lock();
      work_.pop_front();
      changed_.notify_all();
    }
  }
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> work_;
  std::jthread thread_{[this](const std::stop_token& stop) { loop(stop); }};
};

}  // namespace orrery::live::gpu
