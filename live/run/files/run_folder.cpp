#include "live/run/files/run_folder.hpp"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

namespace fs = std::filesystem;

int open_folder(const std::string& path) {
  return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/// Returns true if the folder holds the marker: a regular file of this user with the marker's text,
/// in a folder that no other user may enter.
bool is_marked(const std::string& folder) {
  struct stat status {};
  if (lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return false;
  if (status.st_uid != geteuid() || (status.st_mode & 077) != 0) return false;
  const int file =
      open((folder + "/" + kRunMarker).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return false;
  std::array<char, kRunMarked.size() + 1> words{};
  const ssize_t size = read(file, words.data(), words.size());
  const bool ours = fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
                    status.st_uid == geteuid() && size == static_cast<ssize_t>(kRunMarked.size()) &&
                    std::string_view(words.data(), kRunMarked.size()) == kRunMarked;
  close(file);
  return ours;
}

bool mark(const std::string& folder) {
  const int file = open((folder + "/" + kRunMarker).c_str(),
                        O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return false;
  const bool written =
      write(file, kRunMarked.data(), kRunMarked.size()) == static_cast<ssize_t>(kRunMarked.size());
  close(file);
  return written;
}

/// Deletes the folder if it belongs to a run of this user and no live run holds its lock.
void remove_if_stale(const std::string& path) {
  const int descriptor = open_folder(path);
  if (descriptor < 0) return;
  std::error_code ignored;
  if (is_marked(path) && flock(descriptor, LOCK_EX | LOCK_NB) == 0) fs::remove_all(path, ignored);
  close(descriptor);
}

void remove_stale_folders() {
  for (const std::string& parent : {run_parent(), std::string(kMemoryParent)}) {
    std::error_code failure;
    for (fs::directory_iterator at(parent, failure), end; !failure && at != end;
         at.increment(failure)) {
      if (at->path().filename().string().starts_with(kRunPrefix)) remove_if_stale(at->path());
    }
  }
}

/// Ends the child processes: children that outlive the folder would report its absence. A child
/// that another thread starts meanwhile has no parent left to report to. Children remain if the
/// kernel does not list them.
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

/// Signals from outside that end a process.
constexpr int kEnds[] = {SIGINT,  SIGTERM,   SIGHUP,  SIGQUIT, SIGALRM, SIGUSR2,
                         SIGXCPU, SIGVTALRM, SIGPROF, SIGIO,   SIGPWR};

/// Signals of a defect. A handler may do almost nothing, so that it only deletes the secrets.
constexpr int kCrashes[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGTRAP};
constexpr const char* kSecrets[] = {"token", "key.pem", "certificate.pem", "ca.pem"};
char secret_paths[std::size(kSecrets)][256];  // Paths of the secrets in the newest folder.

void remove_secrets(int number) {
  for (const char* secret : secret_paths) unlink(secret);
  raise(number);  // The default action of the signal follows.
}

std::atomic<bool> notes = false;
std::atomic<int> noted = 0;

/// Keeper of this process's folders, and the thread that waits for the signals that end the
/// process.
class Caretaker {
 public:
  static Caretaker& instance() {
    static auto* const only = new Caretaker;  // The thread outlives main().
    return *only;
  }
  void add(const std::string& path) {
    const std::scoped_lock lock(mutex_);
    paths_.insert(path);
    for (std::size_t i = 0; i < std::size(kSecrets); ++i) {
      fmt::format_to_n(secret_paths[i], sizeof secret_paths[i] - 1, "{}/{}", path, kSecrets[i]);
    }
  }
  void drop(const std::string& path) {
    const std::scoped_lock lock(mutex_);
    paths_.erase(path);
  }
  /// Deletes the folder under the lock: a signal that arrives meanwhile ends the process
  /// afterwards, because two concurrent deletions of one folder would fail on the files that the
  /// other has just deleted.
  void remove(const std::string& path) {
    const std::scoped_lock lock(mutex_);
    std::error_code ignored;
    fs::remove_all(path, ignored);
    paths_.erase(path);
  }

 private:
  Caretaker() {
    sigset_t ends;
    sigemptyset(&ends);
    for (const int number : kEnds) sigaddset(&ends, number);
    pthread_sigmask(SIG_BLOCK, &ends, nullptr);  // Later threads inherit the mask.
    struct sigaction action {};
    action.sa_handler = remove_secrets;
    action.sa_flags = SA_RESETHAND;
    for (const int number : kCrashes) sigaction(number, &action, nullptr);
    std::thread([this, ends] { wait_for(ends); }).detach();
  }
  /// Returns true if the signal is recorded only. A process group and its leader may both forward
  /// one signal: a repetition within a second counts as the same signal.
  bool only_note(int number) {
    using Clock = std::chrono::steady_clock;
    if (!notes || (number != SIGINT && number != SIGTERM)) return false;
    if (noted == 0) {
      noted = number;
      noted_at_ = Clock::now();
      return true;
    }
    return Clock::now() - noted_at_ < std::chrono::seconds(1);
  }
  [[noreturn]] void wait_for(const sigset_t& ends) {
    int number = 0;
    while (sigwait(&ends, &number) != 0 || only_note(number)) {}
    end_children();
    const std::scoped_lock lock(mutex_);
    std::error_code ignored;
    for (const std::string& path : paths_) fs::remove_all(path, ignored);
    signal(number, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &ends, nullptr);
    raise(number);
    _exit(128 + number);
  }

  std::chrono::steady_clock::time_point noted_at_;
  std::mutex mutex_;
  std::set<std::string> paths_;
};

}  // namespace

void remove_on_signal(const std::string& path) { Caretaker::instance().add(path); }
void note_first_signal() { notes = true; }
int noted_signal() { return noted; }
void keep_on_signal(const std::string& path) { Caretaker::instance().drop(path); }

RunFolder::RunFolder(std::string parent) : parent_(std::move(parent)) {
  Caretaker::instance();
  remove_stale_folders();
  do {
    path_ = fmt::format("{}/{}XXXXXX", parent_, kRunPrefix);
    if (!mkdtemp(path_.data())) fail_with_errno();
  } while (!lock());
  remove_on_signal(path_);
  if (mark(path_)) return;
  const int reason = errno;
  remove_folder();
  release();
  errno = reason;
  fail_with_errno();
}

bool RunFolder::lock() {
  release();
  lock_ = open_folder(path_);
  if (lock_ < 0 && errno == ENOENT) return false;
  struct stat status {};
  if (lock_ >= 0 && flock(lock_, LOCK_EX) == 0) return stat(path_.c_str(), &status) == 0;
  const int reason = errno;
  remove_folder();
  release();
  errno = reason;
  fail_with_errno();
}

void RunFolder::fail_with_errno() const {
  throw Error(
      ErrorKind::environment,
      fmt::format("expected to create a folder in {}: {}; free space or change its permissions",
                  parent_, std::strerror(errno)));
}

RunFolder::~RunFolder() {
  remove_folder();
  release();
}

void RunFolder::release() noexcept {
  if (lock_ >= 0) close(lock_);
  lock_ = -1;
}

void RunFolder::remove_folder() noexcept { Caretaker::instance().remove(path_); }

}  // namespace orrery::live
