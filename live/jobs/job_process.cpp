#include "live/jobs/job_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

/// Message of a job's process.
struct Beat {
  enum class Kind : std::uint8_t { alive, ended, slot_taken };
  Kind kind{};
  Nanos at = 0;
};

void say(Beat::Kind kind, Nanos at) {
  std::string bytes(1 + sizeof at, '\0');
  bytes[0] = static_cast<char>(kind);
  std::memcpy(bytes.data() + 1, &at, sizeof at);
  write_message(kChildDescriptor, bytes);
}

std::optional<Beat> listen(int channel) {
  const std::optional<std::string> bytes = read_message(channel);
  if (!bytes || bytes->size() != 1 + sizeof(Nanos)) return {};
  Beat beat{.kind = static_cast<Beat::Kind>(bytes->front())};
  std::memcpy(&beat.at, bytes->data() + 1, sizeof beat.at);
  return beat;
}

Nanos whole_second(Nanos at) {
  return (at + kNanosPerSecond - 1) / kNanosPerSecond * kNanosPerSecond;
}

}  // namespace

GpuSlots::GpuSlots() {
  // A child's channel goes where this might stand.
  const int made = memfd_create("orrery-gpu-slots", MFD_CLOEXEC);
  file_ = made < 0 ? made : fcntl(made, F_DUPFD_CLOEXEC, kChildDescriptor + 1);
  if (made >= 0) close(made);
  if (file_ >= 0) return;
  throw Error(ErrorKind::environment,
              fmt::format("cannot make the slots of the GPUs: {}", strerror(errno)));
}

GpuSlots::~GpuSlots() { close(file_); }

bool GpuSlots::lock_slots(const GpuRuns& gpus) const {
  // Locks belong to an open file, and a fork shares those that it finds: so open it anew.
  const int own = open(fmt::format("/proc/self/fd/{}", file_).c_str(), O_RDWR | O_CLOEXEC);
  if (own < 0) return false;
  return std::all_of(gpus.runs().begin(), gpus.runs().end(), [own](const GpuRuns::Run& run) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = run.first;
    lock.l_len = run.count;
    return fcntl(own, F_OFD_SETLK, &lock) == 0;
  });
}

// ---- the process ----------------------------------------------------------------------------

void JobProcess::run_job(const GpuSlots& slots, const TraceClock& clock, const Order& order) {
  if (!slots.lock_slots(order.gpus)) {
    say(Beat::Kind::slot_taken, order.since);
    _exit(1);
  }
  const Nanos end = order.since + order.left;
  for (Nanos now = clock.now(); now < end; now = clock.now()) {
    say(Beat::Kind::alive, now);
    std::chrono::nanoseconds pause = std::min(order.beat, clock.until(end));
    timespec time{pause.count() / 1'000'000'000, pause.count() % 1'000'000'000};
    nanosleep(&time, nullptr);
  }
  say(Beat::Kind::ended, end);
  _exit(0);
}

ChildProcess JobProcess::start(const GpuSlots& slots, const TraceClock& clock,
                               const Order& order) {
  std::optional<ChildProcess> process = ChildProcess::fork_here();
  if (!process) run_job(slots, clock, order);
  return std::move(*process);
}

// ---- the other side -------------------------------------------------------------------------

JobProcess::JobProcess(const GpuSlots& slots, const TraceClock& clock, const Order& order)
    : process_(start(slots, clock, order)), alive_at_(order.since - 1) {}

void JobProcess::read_messages() {
  pollfd waiting{channel(), POLLIN, 0};
  while (!ended_ && poll(&waiting, 1, 0) == 1) {
    const std::optional<Beat> beat = listen(channel());
    heard_ = TraceClock::Real::now();
    if (!beat || beat->kind == Beat::Kind::slot_taken) {
      mark_failed();
    } else if (beat->kind == Beat::Kind::ended) {
      ended_ = whole_second(beat->at);
    } else {
      alive_at_ = beat->at;
    }
  }
}

void JobProcess::mark_failed() {
  kill_process();
  failed_ = true;
  ended_ = whole_second(alive_at_ + 1);
}

void JobProcess::kill_process() {
  process_.signal(SIGKILL);
  process_.wait();
}

}  // namespace orrery::live
