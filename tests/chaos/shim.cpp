// Preloaded into the processes of a run that chaos.py attacks: shifts their clock and lets their
// disks fail, as a file says that the attacker and they have mapped. What they do otherwise passes.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

constexpr int kMostDisks = 64;

/// As chaos.py packs it.
struct Orders {
  std::int64_t clock_s;  // that the clock of date and time is ahead
  struct Disk {
    std::int32_t process, error;
  } disks[kMostDisks];  // whose writes to files fail, and with what
};

const volatile Orders* map_orders() {
  const char* const path = std::getenv("ORRERY_CHAOS");
  const int file = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* const at = mmap(nullptr, sizeof(Orders), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  return at == MAP_FAILED ? nullptr : static_cast<const Orders*>(at);
}

const volatile Orders* orders() {
  static const volatile Orders* const mapped = map_orders();
  return mapped;
}

std::int64_t ahead() { return orders() == nullptr ? 0 : orders()->clock_s; }

/// True, with errno: this process's disk fails. Sockets and pipes are none.
bool disk_fails(int descriptor) {
  if (orders() == nullptr) return false;
  struct stat status {};
  for (const auto& disk : orders()->disks) {
    if (disk.process == 0) return false;
    if (disk.process != getpid() || disk.error == 0) continue;
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return false;
    errno = disk.error;
    return true;
  }
  return false;
}

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

// What certificates are checked against. Not clock_gettime(): what waits until an instant of that
// clock asks the kernel to wake it, whose clock is another one.
time_t time(time_t* out) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  now.tv_sec += ahead();
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

ssize_t write(int file, const void* bytes, size_t count) {
  static const auto call = real<ssize_t (*)(int, const void*, size_t)>("write");
  return disk_fails(file) ? -1 : call(file, bytes, count);
}

ssize_t writev(int file, const iovec* pieces, int count) {
  static const auto call = real<ssize_t (*)(int, const iovec*, int)>("writev");
  return disk_fails(file) ? -1 : call(file, pieces, count);
}

int fsync(int file) {
  static const auto call = real<int (*)(int)>("fsync");
  return disk_fails(file) ? -1 : call(file);
}

int fdatasync(int file) {
  static const auto call = real<int (*)(int)>("fdatasync");
  return disk_fails(file) ? -1 : call(file);
}

}  // extern "C"
