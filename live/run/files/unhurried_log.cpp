#include "live/run/files/unhurried_log.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1e3; }

}  // namespace

struct UnhurriedLog::Shared {
  struct Task {
    std::function<void(LogFile&)> act;
    std::size_t bytes = 0;
  };
  std::unique_ptr<LogFile> file;  // the thread's alone
  std::mutex mutex;               // of the others
  std::condition_variable changed;
  std::deque<Task> tasks;  ///< the first is under way
  std::size_t waiting = 0;  ///< bytes
  std::optional<std::string> failure;
  bool over = false, closed = false;
  bool hangs = false;  ///< it has not been in time once: nobody waits for it again

  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return over || !tasks.empty(); });
      if (tasks.empty()) break;
      if (!failure) carry_out(tasks.front().act, lock);
      waiting -= tasks.front().bytes;
      tasks.pop_front();
      changed.notify_all();
    }
    lock.unlock();
    file.reset();
    lock.lock();
    closed = true;
    changed.notify_all();
  }
  void carry_out(const std::function<void(LogFile&)>& act, std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    std::optional<std::string> why;
    try {
      act(*file);
    } catch (const std::exception& error) {
      const auto* ours = dynamic_cast<const Error*>(&error);
      why = ours != nullptr ? ours->message() : error.what();
    }
    lock.lock();
    failure = std::move(why);
  }
  void throw_if_failed() const {
    if (failure) throw Error(ErrorKind::environment, *failure);
  }
};

UnhurriedLog::UnhurriedLog(std::unique_ptr<LogFile> plain, Patience patience)
    : patience_(patience), shared_(std::make_shared<Shared>()) {
  shared_->file = std::move(plain);
  std::thread([shared = shared_] { shared->work(); }).detach();  // nobody waits for a hung disk
}

UnhurriedLog::~UnhurriedLog() {
  std::unique_lock lock(shared_->mutex);
  shared_->over = true;
  shared_->changed.notify_all();
  const auto closed = [this] { return shared_->closed; };
  if (!shared_->hangs && shared_->changed.wait_for(lock, patience_.flush, closed)) return;
  shared_->failure.emplace("given up");  // what still waits is not written
}

void UnhurriedLog::append(const std::string& bytes) {
  const std::scoped_lock lock(shared_->mutex);
  shared_->throw_if_failed();
  if (shared_->waiting + bytes.size() > patience_.waiting_bytes) {
    throw Error(ErrorKind::environment,
                fmt::format("the disk of the log takes nothing: {} bytes wait for it",
                            shared_->waiting));
  }
  shared_->waiting += bytes.size();
  shared_->tasks.push_back({[bytes](LogFile& file) { file.append(bytes); }, bytes.size()});
  shared_->changed.notify_all();
}

void UnhurriedLog::wait_for(std::function<void(LogFile&)> task,
                            std::chrono::milliseconds patience) {
  std::unique_lock lock(shared_->mutex);
  shared_->tasks.push_back({std::move(task)});
  shared_->changed.notify_all();
  const bool done =
      shared_->changed.wait_for(lock, patience, [this] { return shared_->tasks.empty(); });
  shared_->throw_if_failed();
  if (done) return;
  shared_->hangs = true;
  throw Error(ErrorKind::environment,
              fmt::format("the disk of the log takes nothing: waited {:.1f} s for it",
                          seconds(patience)));
}

void UnhurriedLog::begin_at(std::uint64_t bytes) {
  wait_for([bytes](LogFile& file) { file.begin_at(bytes); }, patience_.flush);
}

void UnhurriedLog::flush() {
  wait_for([](LogFile& file) { file.flush(); }, patience_.flush);
}

void UnhurriedLog::leave() {
  wait_for([](LogFile& file) { file.leave(); }, patience_.flush);
}

void UnhurriedLog::put_in_place() {
  wait_for([](LogFile& file) { file.put_in_place(); }, patience_.end);
}

}  // namespace orrery::live
