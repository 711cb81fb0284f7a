#include "live/run_folder.hpp"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

namespace fs = std::filesystem;

// Not under the user's choice of folder: a socket's name holds at most 107 bytes.
constexpr const char* kParent = "/tmp";
constexpr const char* kPrefix = "orrery-live-";

int open_folder(const std::string& path) {
  return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/// Removes the folder if it is ours and no living run holds it.
void remove_if_stale(const std::string& path) {
  const int descriptor = open_folder(path);
  if (descriptor < 0) return;
  struct stat status {};
  const bool ours = fstat(descriptor, &status) == 0 && status.st_uid == geteuid();
  std::error_code ignored;
  if (ours && flock(descriptor, LOCK_EX | LOCK_NB) == 0) fs::remove_all(path, ignored);
  close(descriptor);
}

void remove_stale_folders() {
  std::error_code failure;
  for (fs::directory_iterator at(kParent, failure), end; !failure && at != end;
       at.increment(failure)) {
    if (at->path().filename().string().starts_with(kPrefix)) remove_if_stale(at->path());
  }
}

/// Children that outlived the folder would say that it is gone: those that are there are ended,
/// and one that another thread starts meanwhile has nobody to tell. Where the kernel does not list
/// them, they do say it.
void end_children() {
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
  std::error_code unknown;
  for (const fs::directory_entry& thread : fs::directory_iterator("/proc/self/task", unknown)) {
    std::ifstream listing(thread.path() / "children");
    for (pid_t child = 0; listing >> child;) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }
}

/// The folders of this process, for the thread that waits for the signals which end it.
class Caretaker {
 public:
  static Caretaker& instance() {
    static auto* const only = new Caretaker;  // its thread outlives main()
    return *only;
  }
  void add(const std::string& path) {
    const std::scoped_lock lock(mutex_);
    paths_.insert(path);
  }
  void drop(const std::string& path) {
    const std::scoped_lock lock(mutex_);
    paths_.erase(path);
  }

 private:
  Caretaker() {
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, nullptr);  // every later thread inherits it
    std::thread([this, ends] { wait_for(ends); }).detach();
  }
  [[noreturn]] void wait_for(const sigset_t& ends) {
    int number = 0;
    while (sigwait(&ends, &number) != 0) {
    }
    end_children();
    const std::scoped_lock lock(mutex_);
    std::error_code ignored;
    for (const std::string& path : paths_) fs::remove_all(path, ignored);
    signal(number, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &ends, nullptr);
    raise(number);
    _exit(128 + number);
  }

  std::mutex mutex_;
  std::set<std::string> paths_;
};

}  // namespace

void remove_on_signal(const std::string& path) { Caretaker::instance().add(path); }
void keep_on_signal(const std::string& path) { Caretaker::instance().drop(path); }

RunFolder::RunFolder() {
  Caretaker::instance();
  remove_stale_folders();
  do {
    path_ = fmt::format("{}/{}XXXXXX", kParent, kPrefix);
    if (!mkdtemp(path_.data())) fail();
  } while (!lock());
  remove_on_signal(path_);
}

/// False if another run took the folder for a stale one before the lock was ours.
bool RunFolder::lock() {
  release();
  lock_ = open_folder(path_);
  if (lock_ < 0 && errno == ENOENT) return false;
  struct stat status {};
  if (lock_ >= 0 && flock(lock_, LOCK_EX) == 0) return stat(path_.c_str(), &status) == 0;
  const int reason = errno;
  remove();
  release();
  errno = reason;
  fail();
}

void RunFolder::fail() {
  throw Error(ErrorKind::environment,
              fmt::format("cannot make a folder in {}: {}", kParent, std::strerror(errno)));
}

RunFolder::~RunFolder() {
  remove();
  release();
}

void RunFolder::release() noexcept {
  if (lock_ >= 0) close(lock_);
  lock_ = -1;
}

void RunFolder::remove() noexcept {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  keep_on_signal(path_);
}

}  // namespace orrery::live
