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
  std::unique_ptr<LogFile> file;  // Accessed by the thread only.
  std::mutex mutex;               // Guards the members below.
  std::condition_variable changed;
  std::deque<Task> tasks;   ///< Pending tasks; the first is being executed.
  std::size_t waiting = 0;  ///< Pending bytes.
  std::optional<std::string> failure;
  bool over = false, closed = false;
  // True after one missed limit: the destructor does not wait for the disk then.
  bool hangs = false;

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
  // Detached: no caller waits for a hung disk.
  std::thread([shared = shared_] { shared->work(); }).detach();
}

UnhurriedLog::~UnhurriedLog() {
  std::unique_lock lock(shared_->mutex);
  shared_->over = true;
  shared_->changed.notify_all();
  const auto closed = [this] { return shared_->closed; };
  if (!shared_->hangs && shared_->changed.wait_for(lock, patience_.flush, closed)) return;
  shared_->failure.emplace(
      "the log was closed before all bytes were written");  // Pending tasks are not written.
}

void UnhurriedLog::append_bytes(const std::string& bytes) {
  const std::scoped_lock lock(shared_->mutex);
  shared_->throw_if_failed();
  if (shared_->waiting + bytes.size() > patience_.waiting_bytes) {
    throw Error(ErrorKind::environment,
                fmt::format("the disk of the log does not respond: {} bytes are pending",
                            shared_->waiting));
  }
  shared_->waiting += bytes.size();
  shared_->tasks.push_back({[bytes](LogFile& file) { file.append_bytes(bytes); }, bytes.size()});
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
              fmt::format("the disk of the log does not respond: no write within {:.1f} s",
                          seconds(patience)));
}

void UnhurriedLog::begin_at(std::uint64_t bytes) {
  wait_for([bytes](LogFile& file) { file.begin_at(bytes); }, patience_.flush);
}

void UnhurriedLog::flush() {
  wait_for([](LogFile& file) { file.flush(); }, patience_.flush);
}

void UnhurriedLog::release_file() {
  wait_for([](LogFile& file) { file.release_file(); }, patience_.flush);
}

void UnhurriedLog::rename_into_place() {
  wait_for([](LogFile& file) { file.rename_into_place(); }, patience_.end);
}

}  // namespace orrery::live
