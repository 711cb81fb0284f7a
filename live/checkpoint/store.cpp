#include "live/checkpoint/store.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& path, int reason = errno) {
  throw Error(ErrorKind::environment,
              fmt::format("cannot {} '{}': {}", what, path, std::strerror(reason)));
}

int open_folder(const std::string& path) {
  return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

void make_folders(const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) fail("make the folder", part);
    if (end == std::string::npos) return;
  }
}

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() { close(value_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int value() const { return value_; }

 private:
  int value_;
};

class FolderFile : public Store::File {
 public:
  FolderFile(std::string path, int descriptor) : path_(std::move(path)), file_(descriptor) {}

  void write(std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::write(file_.value(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("write", path_);
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  void sync() override {
    if (fsync(file_.value()) != 0) fail("make durable", path_);
  }

 private:
  const std::string path_;
  const Descriptor file_;
};

}  // namespace

std::unique_ptr<FolderStore> FolderStore::make_folder(const std::string& path) {
  make_folders(path);
  const int folder = open_folder(path);
  if (folder < 0) fail("open the folder", path);
  return std::unique_ptr<FolderStore>(new FolderStore(path, folder));
}

std::unique_ptr<FolderStore> FolderStore::open(const std::string& path) {
  const int folder = open_folder(path);
  if (folder < 0) {
    throw Error(ErrorKind::bad_input,
                fmt::format("cannot open the folder '{}': {}", path, std::strerror(errno)));
  }
  return std::unique_ptr<FolderStore>(new FolderStore(path, folder));
}

FolderStore::~FolderStore() { close(folder_); }

std::unique_ptr<Store::File> FolderStore::create_file(const std::string& name) {
  const int file = openat(folder_, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) fail("create", path_ + "/" + name);
  return std::make_unique<FolderFile>(path_ + "/" + name, file);
}

void FolderStore::rename(const std::string& from, const std::string& to) {
  if (renameat(folder_, from.c_str(), folder_, to.c_str()) != 0) fail("rename", path_ + "/" + from);
}

void FolderStore::remove_file(const std::string& name) {
  if (unlinkat(folder_, name.c_str(), 0) != 0) fail("remove", path_ + "/" + name);
}

void FolderStore::sync_names() {
  if (fsync(folder_) != 0) fail("make durable", path_);
}

std::vector<std::string> FolderStore::list() {
  const int again = openat(folder_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const folder = again < 0 ? nullptr : fdopendir(again);
  if (!folder) fail("list", path_);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  const int reason = errno;
  closedir(folder);
  if (reason != 0) fail("list", path_, reason);
  std::sort(names.begin(), names.end());
  return names;
}

std::string FolderStore::read(const std::string& name, std::uint64_t most_bytes) {
  const std::string path = path_ + "/" + name;
  // Neither a link to elsewhere nor a pipe that would block.
  const int opened = openat(folder_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (opened < 0) fail("read", path);
  const Descriptor file(opened);
  struct stat status {};
  if (fstat(file.value(), &status) != 0) fail("read", path);
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorKind::bad_input, fmt::format("'{}' is not a regular file", path));
  }
  if (static_cast<std::uint64_t>(status.st_size) > most_bytes) {
    throw Error(ErrorKind::bad_input, fmt::format("'{}' has {} bytes where at most {} are expected",
                                                  path, status.st_size, most_bytes));
  }
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.value(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", path);
    if (got == 0) break;  // it has become shorter
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace orrery::live
