#include "live/run/files/file_writer.hpp"

#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace orrery::live {

int write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : EIO;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

int rename_file(const std::string& from, const std::string& to) {
  return std::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

bool replace_file(const std::string& path, const std::string& text) {
  const std::string fresh = path + ".new";
  std::remove(fresh.c_str());
  // Mode "x": the file must not exist, so that no link is followed.
  std::FILE* const file = std::fopen(fresh.c_str(), "wxe");
  if (file == nullptr) return false;
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) == 0 && written) return rename_file(fresh, path) == 0;
  std::remove(fresh.c_str());
  return false;
}

struct FileWriter::Shared {
  struct Named {
    std::string name;
    Job act;
  };
  std::mutex mutex;  // Guards the members below.
  std::condition_variable changed;
  std::deque<Named> jobs;   ///< Jobs that have not begun.
  std::uint64_t added = 0;  ///< Number of queued jobs so far.
  std::uint64_t done = 0;   ///< Number of finished jobs.
  bool over = false;

  void carry_out_jobs() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return over || !jobs.empty(); });
      if (jobs.empty()) return;
      Job act = std::move(jobs.front().act);
      jobs.pop_front();
      lock.unlock();
      act();
      act = nullptr;  // Frees what the job owns before the job counts as done.
      lock.lock();
      ++done;
      changed.notify_all();
    }
  }
  /// Blocks until all jobs that are queued now are done, at most for `patience`.
  bool wait_for_jobs(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds patience) {
    return changed.wait_for(lock, patience, [this, all = added] { return done >= all; });
  }
};

FileWriter::~FileWriter() {
  if (!shared_) return;
  std::unique_lock lock(shared_->mutex);
  if (!shared_->wait_for_jobs(lock, end_)) shared_->jobs.clear();
  shared_->over = true;
  shared_->changed.notify_all();
}

FileWriter::Shared& FileWriter::running() {
  if (!shared_) {
    shared_ = std::make_shared<Shared>();
    // Detached: no caller waits for a hung disk.
    std::thread([shared = shared_] { shared->carry_out_jobs(); }).detach();
  }
  return *shared_;
}

void FileWriter::add_job(std::string name, Job job) {
  Shared& shared = running();
  const std::scoped_lock lock(shared.mutex);
  for (Shared::Named& waiting : shared.jobs) {
    if (name.empty() || waiting.name != name) continue;
    waiting.act = std::move(job);
    return;
  }
  ++shared.added;
  shared.jobs.push_back({std::move(name), std::move(job)});
  shared.changed.notify_all();
}

bool FileWriter::run_job(Job job, std::chrono::milliseconds patience) {
  add_job(std::move(job));
  return wait_until_idle(patience);
}

bool FileWriter::wait_until_idle(std::chrono::milliseconds patience) {
  if (!shared_) return true;
  std::unique_lock lock(shared_->mutex);
  return shared_->wait_for_jobs(lock, patience);
}

}  // namespace orrery::live
