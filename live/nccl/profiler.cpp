// liborrery_nccl_profiler.so: an NCCL profiler plugin (NCCL_PROFILER_PLUGIN=<path of it>) that
// reports the time of each collective of at least two ranks to the socket named by
// ORRERY_NCCL_REPORTS (collective_report). Versions 4 to 7 of the interface (NCCL 2.27 and newer),
// each under its own symbol; the structs are declared here as far as they are read, so that neither
// NCCL nor CUDA is needed to build it. Without the variable no events are asked for.
//
// NCCL starts an event for each collective when it is enqueued, and a child event for each of its
// channels once the kernel runs, with times of the GPU in nanoseconds. A collective takes from the
// begin of its first channel to the end of its last one. Calls come from any thread; one mutex
// guards the events, which are few and short.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "live/nccl/report_sender.hpp"

namespace {

using namespace orrery::live;
using orrery::CollectiveKind;

constexpr int kSuccess = 0;                    // ncclSuccess
constexpr std::uint64_t kCollective = 1 << 1;  // ncclProfileColl
constexpr std::uint64_t kChannel = 1 << 6;     // ncclProfileKernelCh
constexpr int kChannelStop = 22;               // ncclProfilerKernelChStop
constexpr std::size_t kMostChannels = 64;      // MAXCHANNELS
constexpr std::size_t kMostOpen = 256;         ///< collectives whose end is awaited

using Logger = void (*)(int level, unsigned long flags, const char* file, int line,
                        const char* format, ...);

/// Description of an event. Version 4 has a type of one byte in front of the same padding, so that
/// its other bytes have no meaning.
struct Described {
  std::uint64_t type;
  void* parent;
  int rank;
  union {
    struct {
      std::uint64_t sequence;
      const char* function;
      const void* sent;
      void* received;
      std::size_t count;
      int root;
      const char* type;
      std::uint8_t channels, warps;
      const char* algorithm;
      const char* protocol;
    } collective;
    struct {
      std::uint8_t number;
      std::uint64_t time;  ///< time of the GPU in nanoseconds
    } channel;
  };
};

/// One communicator.
struct Communicator {
  std::uint64_t id = 0;
  std::uint32_t rank = 0, ranks = 0;
};

/// First member of both kinds of events, to which NCCL's handles point.
struct Event {
  bool is_channel = false;
};

struct Collective;
struct Channel : Event {
  Collective* of = nullptr;
  std::uint64_t begin_ns = 0, end_ns = 0;
};
struct Collective : Event {
  const Communicator* of = nullptr;  ///< null: the record is free
  CollectiveReport report;
  std::size_t channels = 0, ended = 0;
  std::uint64_t begin_ns = 0, end_ns = 0;
  std::array<Channel, kMostChannels> all;
};

std::uint64_t host_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

/// Events of the process.
class Events {
 public:
  explicit Events(const char* path) : sender_(path) {}

  ReportSender& sender() { return sender_; }

  Event* start_collective(const Communicator& of, const Described& described) {
    const auto& call = described.collective;
    const auto kind = kind_of_function(call.function);
    if (!kind || of.ranks < 2 || call.channels == 0 || call.channels > kMostChannels) {
      return nullptr;
    }
    const bool is_part =
        *kind == CollectiveKind::all_gather || *kind == CollectiveKind::reduce_scatter;
    const std::lock_guard lock(mutex_);
    Collective* const found = claim_record();
    if (found == nullptr) return nullptr;
    found->of = &of;
    found->channels = call.channels;
    found->ended = 0;
    found->begin_ns = found->end_ns = 0;
    found->report = {.communicator = of.id,
                     .sequence = call.sequence,
                     .rank = of.rank,
                     .ranks = of.ranks,
                     .kind = *kind,
                     .bytes = call.count * bytes_of_type(call.type) * (is_part ? of.ranks : 1),
                     .algorithm = algorithm_named(call.algorithm ? call.algorithm : "")};
    return found;
  }

  Event* start_channel(const Described& described) {
    auto* const parent = static_cast<Event*>(described.parent);
    if (parent == nullptr || parent->is_channel || described.channel.number >= kMostChannels) {
      return nullptr;
    }
    const std::lock_guard lock(mutex_);
    auto& of = static_cast<Collective&>(*parent);
    if (of.of == nullptr) return nullptr;
    Channel& channel = of.all[described.channel.number];
    channel.is_channel = true;
    channel.of = &of;
    channel.begin_ns = described.channel.time > 0 ? described.channel.time : host_ns();
    channel.end_ns = 0;
    return &channel;
  }

  void set_channel_end(Event& event, std::uint64_t time) {
    const std::lock_guard lock(mutex_);
    if (event.is_channel) static_cast<Channel&>(event).end_ns = time;
  }

  void stop_event(Event& event) {
    if (!event.is_channel) return;  // a collective is enqueued: its channels follow
    std::unique_lock lock(mutex_);
    auto& channel = static_cast<Channel&>(event);
    Collective& of = *channel.of;
    if (of.of == nullptr) return;
    const std::uint64_t end = channel.end_ns > 0 ? channel.end_ns : host_ns();
    of.begin_ns = of.ended == 0 ? channel.begin_ns : std::min(of.begin_ns, channel.begin_ns);
    of.end_ns = std::max(of.end_ns, end);
    if (++of.ended < of.channels) return;
    of.report.duration_ns = of.end_ns > of.begin_ns ? of.end_ns - of.begin_ns : 0;
    const CollectiveReport report = of.report;
    release_record(of);
    lock.unlock();
    sender_.add_report(report);
  }

  void forget_communicator(const Communicator& of) {
    const std::lock_guard lock(mutex_);
    for (Collective& each : records_) {
      if (each.of == &of) release_record(each);
    }
  }

 private:
  Collective* claim_record() {
    if (!free_.empty()) {
      Collective* const found = free_.back();
      free_.pop_back();
      return found;
    }
    return records_.size() < kMostOpen ? &records_.emplace_back() : nullptr;
  }
  void release_record(Collective& record) {
    record.of = nullptr;
    free_.push_back(&record);
  }

  ReportSender sender_;
  std::mutex mutex_;
  std::deque<Collective> records_;  ///< never shrinks: NCCL may use an old handle
  std::vector<Collective*> free_;
};

Events& events() {
  static Events& one = *new Events(std::getenv("ORRERY_NCCL_REPORTS"));  // used at exit, too
  return one;
}

int open_communicator(void** context, std::uint64_t id, int* mask, int ranks, int rank) {
  *context = new Communicator{.id = id,
                              .rank = static_cast<std::uint32_t>(rank),
                              .ranks = static_cast<std::uint32_t>(ranks)};
  *mask = 0;
  if (!events().sender().has_receiver()) return kSuccess;
  *mask = static_cast<int>(kCollective | kChannel);
  const char* const own = std::getenv("RANK");
  if (own != nullptr) events().sender().add_report(OpenReport{std::strtoul(own, nullptr, 10)});
  return kSuccess;
}

int close_communicator(void* context) {
  auto* const of = static_cast<Communicator*>(context);
  events().forget_communicator(*of);
  events().sender().send_reports();
  delete of;
  return kSuccess;
}

int start(void* context, void** handle, const Described* described, std::uint64_t type) {
  *handle = nullptr;
  if (type == kCollective) {
    *handle = events().start_collective(*static_cast<const Communicator*>(context), *described);
  } else if (type == kChannel) {
    *handle = events().start_channel(*described);
  }
  return kSuccess;
}

int stop_event(void* handle) {
  if (handle != nullptr) events().stop_event(*static_cast<Event*>(handle));
  return kSuccess;
}

/// `arguments`: begins with the time of the GPU, if the state is kChannelStop.
int record_state(void* handle, int state, const std::uint64_t* arguments) {
  if (handle == nullptr || state != kChannelStop || arguments == nullptr) return kSuccess;
  events().set_channel_end(*static_cast<Event*>(handle), *arguments);
  return kSuccess;
}

// ---- the versions -------------------------------------------------------------------------

int open_v4(void** context, int* mask, const char*, std::uint64_t id, int, int ranks, int rank,
            Logger) {
  return open_communicator(context, id, mask, ranks, rank);
}
int open_v5(void** context, std::uint64_t id, int* mask, const char*, int, int ranks, int rank,
            Logger) {
  return open_communicator(context, id, mask, ranks, rank);
}
int start_v4(void* context, void** handle, const Described* described) {
  return start(context, handle, described, described->type & 0xff);
}
int start_v5(void* context, void** handle, const Described* described) {
  return start(context, handle, described, described->type);
}

struct ProfilerV4 {
  const char* name;
  decltype(&open_v4) open;
  decltype(&start_v4) start;
  decltype(&stop_event) stop;
  decltype(&record_state) record;
  decltype(&close_communicator) close;
};
/// Also versions 6 and 7, whose collectives and channels begin as those of version 5.
struct ProfilerV5 {
  const char* name;
  decltype(&open_v5) open;
  decltype(&start_v5) start;
  decltype(&stop_event) stop;
  decltype(&record_state) record;
  decltype(&close_communicator) close;
};

constexpr const char* kName = "orrery";
constexpr ProfilerV5 kProfilerV5{kName,      open_v5,      start_v5,
                                 stop_event, record_state, close_communicator};

}  // namespace

extern "C" {
#define ORRERY_EXPORT __attribute__((visibility("default")))
extern const ProfilerV4 ncclProfiler_v4 ORRERY_EXPORT;
extern const ProfilerV5 ncclProfiler_v5 ORRERY_EXPORT;
extern const ProfilerV5 ncclProfiler_v6 ORRERY_EXPORT;
extern const ProfilerV5 ncclProfiler_v7 ORRERY_EXPORT;
const ProfilerV4 ncclProfiler_v4{kName,      open_v4,      start_v4,
                                 stop_event, record_state, close_communicator};
const ProfilerV5 ncclProfiler_v5 = kProfilerV5;
const ProfilerV5 ncclProfiler_v6 = kProfilerV5;
const ProfilerV5 ncclProfiler_v7 = kProfilerV5;
}
