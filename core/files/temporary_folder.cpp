#include "core/files/temporary_folder.hpp"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMarker = ".orrery-temporary";
constexpr int kLooks = 50;
constexpr int kLookMs = 10;
constexpr int kLeastShared = 64;  ///< lowest descriptor of a lock that child processes share

/// Returns the descriptor of a folder of this user, locked; -1 if it is none, or is locked.
int lock_folder(const fs::path& path) {
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return -1;
  struct stat found {};
  const bool own = fstat(folder, &found) == 0 && found.st_uid == geteuid();
  if (own && flock(folder, LOCK_EX | LOCK_NB) == 0) return folder;
  close(folder);
  return -1;
}

/// Removes the folders in `parent` whose names begin with `prefix` and whose owners were killed.
void remove_stale_folders(const std::string& prefix, const fs::path& parent) {
  std::error_code ignored;
  for (fs::directory_iterator at(parent, ignored), end; !ignored && at != end;
       at.increment(ignored)) {
    std::error_code unknown;
    const fs::path& path = at->path();
    if (!path.filename().string().starts_with(prefix)) continue;
    if (!fs::is_regular_file(fs::symlink_status(path / kMarker, unknown))) continue;
    const int folder = lock_folder(path);
    if (folder < 0) continue;
    fs::remove_all(path, unknown);
    close(folder);
  }
}

}  // namespace

TemporaryFolder::TemporaryFolder(const std::string& name, const fs::path& parent) {
  remove_stale_folders(name + "-", parent);
  std::string made = (parent / (name + "-XXXXXX")).string();
  const bool exists = mkdtemp(made.data()) != nullptr;
  path_ = made;
  // The marker comes after the lock: no other process removes the folder in between.
  if (exists) lock_ = lock_folder(path_);
  if (lock_ >= 0 && std::ofstream(path_ / kMarker).put('\n').flush()) return;
  const std::string why = std::strerror(errno);
  std::error_code ignored;
  if (lock_ >= 0) close(lock_);
  if (exists) fs::remove_all(path_, ignored);
  throw Error(ErrorKind::environment,
              fmt::format("expected a folder for temporary files, cannot make {}: {}; check the "
                          "folder's permissions and the free space",
                          made, why));
}

TemporaryFolder::TemporaryFolder(fs::path path, Taken)
    : path_(std::move(path)),
      lock_(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)),
      is_unlocked_(true) {
  struct stat found {};
  const bool own = lock_ >= 0 && fstat(lock_, &found) == 0 && found.st_uid == geteuid();
  if (!own) {
    if (lock_ >= 0) close(lock_);
    throw Error(ErrorKind::environment,
                fmt::format("{}: expected the folder of a run, found none", path_.string()));
  }
  share_lock();
  claim_lock();
}

void TemporaryFolder::claim_lock() {
  if (is_unlocked_) is_unlocked_ = flock(lock_, LOCK_EX | LOCK_NB) != 0;
}

void TemporaryFolder::share_lock() {
  if (fcntl(lock_, F_GETFD) == 0) return;  // shared already
  // Child processes have their channels at low descriptors (core/process.hpp).
  const int shared = fcntl(lock_, F_DUPFD, kLeastShared);
  if (shared < 0) {
    throw Error(ErrorKind::environment,
                fmt::format("{}: cannot share the lock: {}", path_.string(), std::strerror(errno)));
  }
  close(lock_);
  lock_ = shared;
}

TemporaryFolder::~TemporaryFolder() {
  // Processes of a run that ends hold the lock a moment longer.
  for (int look = 0; is_unlocked_ && look < kLooks; ++look) {
    claim_lock();
    if (is_unlocked_) poll(nullptr, 0, kLookMs);
  }
  std::error_code ignored;
  if (!is_unlocked_) fs::remove_all(path_, ignored);
  close(lock_);
}

}  // namespace orrery
