// Library preloaded into the processes of a run: each rename and each fsync takes
// ORRERY_SLOW_DISK_MS longer, and appends a line with the call, the process and the file to the
// file ORRERY_SLOW_DISK_LOG, so that a test can prove that the disk was slow. While the file
// ORRERY_HUNG_DISK exists, each write to a file with the name "journal" hangs, and is noted, too.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace {

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

ssize_t real_write(int file, const void* bytes, size_t count) {
  static const auto call = real<ssize_t (*)(int, const void*, size_t)>("write");
  return call(file, bytes, count);
}

void wait_ms(long ms) {
  timespec left{.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1'000'000};
  while (nanosleep(&left, &left) != 0) {}
}

void note_call(const char* call, const char* path) {
  const char* const log = std::getenv("ORRERY_SLOW_DISK_LOG");
  if (log == nullptr) return;
  char line[512];
  const int size = std::snprintf(line, sizeof line, "%s %d %s\n", call, getpid(), path);
  const int file = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file >= 0 && size > 0 && size < static_cast<int>(sizeof line)) {
    real_write(file, line, static_cast<std::size_t>(size));
  }
  if (file >= 0) close(file);
}

void delay(const char* call, const char* path) {
  const char* const ms = std::getenv("ORRERY_SLOW_DISK_MS");
  if (ms == nullptr) return;
  note_call(call, path);
  wait_ms(std::atol(ms));
}

bool exists(const char* path) {
  struct stat status {};
  return path != nullptr && stat(path, &status) == 0;
}

/// Returns true if the descriptor is a file with the name "journal".
bool is_journal(int file) {
  char link[64], path[512];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  if (size < 8) return false;
  path[size] = '\0';
  return std::strcmp(path + size - 8, "/journal") == 0;
}

}  // namespace

extern "C" {

int rename(const char* from, const char* to) noexcept {
  static const auto call = real<int (*)(const char*, const char*)>("rename");
  delay("rename", to);
  return call(from, to);
}

int fsync(int file) {
  static const auto call = real<int (*)(int)>("fsync");
  delay("fsync", "-");
  return call(file);
}

ssize_t write(int file, const void* bytes, size_t count) {
  const char* const hung = std::getenv("ORRERY_HUNG_DISK");
  if (hung != nullptr && is_journal(file) && exists(hung)) {
    note_call("write", "journal");
    while (exists(hung)) wait_ms(50);
  }
  return real_write(file, bytes, count);
}

int fdatasync(int file) {
  static const auto call = real<int (*)(int)>("fdatasync");
  delay("fdatasync", "-");
  return call(file);
}

}  // extern "C"
