// Library preloaded into the processes of a run that chaos.py attacks: shifts their clock and makes
// their disks fail, as a file says that the attacker and they have mapped. Other calls pass
// through.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

constexpr int kMostDisks = 64;

/// Orders in the format of chaos.py.
struct Orders {
  std::int64_t clock_s;  // offset of the clock of date and time
  struct Disk {
    std::int32_t process, error;
  } disks[kMostDisks];  // processes whose writes to files fail, and the error
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

/// dlsym() finds the oldest of several versions.
template <class Function>
Function real(const char* name, const char* version) {
  void* const found = dlvsym(RTLD_NEXT, name, version);
  return found == nullptr ? real<Function>(name) : reinterpret_cast<Function>(found);
}

bool of_date(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

int real_clock(clockid_t clock, timespec* out) {
  static const auto call = real<int (*)(clockid_t, timespec*)>("clock_gettime");
  return call(clock, out);
}

/// An instant of the shifted clock as the kernel knows it: whoever waits until then is woken by the
/// kernel's clock.
struct Instant {
  explicit Instant(const timespec* said, bool shifted = true) {
    if (said == nullptr) return;
    value = *said;
    if (shifted) value.tv_sec -= ahead();
    if (value.tv_sec < 0) value = {};
    at = &value;
  }
  timespec value{};
  const timespec* at = nullptr;
};

}  // namespace

extern "C" {

// ---- the clock of date and time ----------------------------------------------------------------

int clock_gettime(clockid_t clock, timespec* out) noexcept {
  const int result = real_clock(clock, out);
  if (result == 0 && of_date(clock)) out->tv_sec += ahead();
  return result;
}

time_t time(time_t* out) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(timeval* out, void*) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  *out = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return 0;
}

// ---- who waits until an instant of it ----------------------------------------------------------

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           const timespec* until) {
  using Call = int (*)(pthread_cond_t*, pthread_mutex_t*, const timespec*);
  static const auto call = real<Call>("pthread_cond_timedwait", "GLIBC_2.3.2");
  // A condition may wait by the clock since start, whose instants are no dates.
  constexpr time_t kNoDate = 1'000'000'000;
  return call(condition, mutex, Instant(until, until->tv_sec > kNoDate).at);
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  using Call = int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);
  static const auto call = real<Call>("pthread_cond_clockwait");
  return call(condition, mutex, clock, Instant(until, of_date(clock)).at);
}

int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* until) noexcept {
  static const auto call =
      real<int (*)(pthread_mutex_t*, const timespec*)>("pthread_mutex_timedlock");
  return call(mutex, Instant(until).at);
}

int sem_timedwait(sem_t* semaphore, const timespec* until) {
  static const auto call = real<int (*)(sem_t*, const timespec*)>("sem_timedwait");
  return call(semaphore, Instant(until).at);
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* span, timespec* left) {
  using Call = int (*)(clockid_t, int, const timespec*, timespec*);
  static const auto call = real<Call>("clock_nanosleep");
  const bool date = of_date(clock) && (flags & TIMER_ABSTIME) != 0;
  return call(clock, flags, Instant(span, date).at, left);
}

/// Waits by direct futex calls, as in Abseil.
long syscall(long number, ...) noexcept {
  using Call = long (*)(long, ...);
  static const auto call = real<Call>("syscall");
  va_list rest;
  va_start(rest, number);
  long words[6];
  for (long& word : words) word = va_arg(rest, long);
  va_end(rest);
  if (number == SYS_futex && (words[1] & FUTEX_CLOCK_REALTIME) != 0) {
    const Instant until(reinterpret_cast<const timespec*>(words[3]));
    const auto at = reinterpret_cast<long>(until.at);
    return call(number, words[0], words[1], words[2], at, words[4], words[5]);
  }
  if (number == SYS_clock_gettime) {
    return clock_gettime(static_cast<clockid_t>(words[0]), reinterpret_cast<timespec*>(words[1]));
  }
  return call(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

// ---- disks -------------------------------------------------------------------------------------

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
