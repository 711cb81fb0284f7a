// liborrery_nccl_tuner.so: an NCCL tuner plugin (NCCL_TUNER_PLUGIN=<path of it>) that serves the
// table in the file named by ORRERY_NCCL_TABLE to any program that uses NCCL. Versions 3 to 7 of
// the interface, each under its own symbol, of which NCCL takes the newest it knows; the structs
// are declared here, so that neither NCCL nor CUDA is needed to build it. A file that is missing,
// torn or wrong changes nothing: NCCL then chooses as it would without the plugin. Under `orrery
// run` the plugin reports to ORRERY_NCCL_REPORTS that this rank has loaded NCCL, and the first
// communicator waits for the file for at most ORRERY_NCCL_WAIT_S seconds, if that is set.
//
// Calls come from any thread. They read the newest table through one atomic pointer and never wait;
// whoever notices that the file was replaced (by rename) loads it, one thread at a time, and tables
// that were in use are kept until the process ends: they are small and few.
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>

#include "live/nccl/report_sender.hpp"
#include "live/nccl/tuner_table.hpp"

namespace {

using namespace orrery::live;

constexpr int kSuccess = 0;            // ncclSuccess
constexpr int kLogWarning = 2;         // NCCL_LOG_WARN
constexpr int kLogInformation = 3;     // NCCL_LOG_INFO
constexpr unsigned long kTuning = 64;  // NCCL_TUNING, the subsystem of the message

using Logger = void (*)(int level, unsigned long flags, const char* file, int line,
                        const char* format, ...);

/// The file's table, shared by all communicators of the process.
class Source {
 public:
  explicit Source(const char* path) : path_(path ? path : "") {}

  /// Blocks until there is a table, or for `limit_s` seconds.
  void wait_for_table(double limit_s, Logger log) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(limit_s);
    while (!newest(log) && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  const TunerTable* newest(Logger log) {
    look(log);
    return newest_.load(std::memory_order_acquire);
  }

 private:
  struct Kept {
    TunerTable table;
    std::unique_ptr<Kept> before;
  };
  struct Stamp {
    dev_t device = 0;
    ino_t inode = 0;
    timespec changed{};
    bool operator==(const Stamp& other) const {
      return device == other.device && inode == other.inode &&
             changed.tv_sec == other.changed.tv_sec && changed.tv_nsec == other.changed.tv_nsec;
    }
  };

  void look(Logger log) {
    if (path_.empty()) return;
    if (busy_.test_and_set(std::memory_order_acquire)) {
      // Somebody is reading. Only the first table is worth waiting for: without one this thread
      // would choose otherwise than the others.
      if (!newest_.load(std::memory_order_acquire)) busy_.wait(true, std::memory_order_acquire);
      return;
    }
    struct stat found {};
    if (stat(path_.c_str(), &found) == 0) {
      const Stamp stamp{found.st_dev, found.st_ino, found.st_mtim};
      if (!(stamp == seen_)) {
        seen_ = stamp;
        load(log);
      }
    }
    busy_.clear(std::memory_order_release);
    busy_.notify_all();
  }

  void load(Logger log) {
    try {
      std::ifstream file(path_, std::ios::binary);
      const std::string text((std::istreambuf_iterator<char>(file)), {});
      auto kept = std::make_unique<Kept>();
      kept->table = parse_tuner_table(text);
      kept->before = std::move(all_);
      all_ = std::move(kept);
      newest_.store(&all_->table, std::memory_order_release);
      if (log) log(kLogInformation, kTuning, __FILE__, __LINE__, "orrery: %s read", path_.c_str());
    } catch (const std::exception& problem) {
      if (!log) return;
      log(kLogWarning, kTuning, __FILE__, __LINE__, "orrery: %s: %s", path_.c_str(),
          problem.what());
    }
  }

  const std::string path_;
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  Stamp seen_;                 // used by the thread that holds busy_
  std::unique_ptr<Kept> all_;  // used by the thread that holds busy_
  std::atomic<const TunerTable*> newest_{nullptr};
};

Source& source() {
  static Source one(std::getenv("ORRERY_NCCL_TABLE"));
  return one;
}

/// Tells `orrery run` that this rank has loaded NCCL, and waits for the table that it writes.
void begin_process(Logger log) {
  ReportSender sender(std::getenv("ORRERY_NCCL_REPORTS"));
  const char* const rank = std::getenv("RANK");
  if (rank != nullptr) sender.add_report(OpenReport{std::strtoul(rank, nullptr, 10)});
  const char* const limit = std::getenv("ORRERY_NCCL_WAIT_S");
  if (limit != nullptr) source().wait_for_table(std::strtod(limit, nullptr), log);
}

/// One communicator.
struct Tuner {
  std::uint32_t ranks;
  Logger log;
  std::atomic<std::uint64_t> calls{0};
};

int open_tuner(std::size_t ranks, Logger log, void** context) {
  *context = new Tuner{.ranks = static_cast<std::uint32_t>(ranks), .log = log};
  static const bool has_begun = (begin_process(log), true);
  static_cast<void>(has_begun);
  source().newest(log);
  return kSuccess;
}

int close_tuner(void* context) {
  delete static_cast<Tuner*>(context);
  return kSuccess;
}

/// Common part of all versions. `costs` is declared as float** and is the first element of a
/// matrix.
int choose(void* context, int collective, std::size_t bytes, float** costs, int algorithms,
           int protocols, int* channels) {
  Tuner& tuner = *static_cast<Tuner*>(context);
  const std::uint64_t call = tuner.calls.fetch_add(1, std::memory_order_relaxed);
  const TunerTable* table = source().newest(tuner.log);
  if (!table || algorithms <= 0 || protocols <= 0) return kSuccess;
  const TunerRule* rule =
      find_tuner_rule(*table, call, static_cast<NcclCollective>(collective), bytes, tuner.ranks);
  if (!rule) return kSuccess;
  const auto entries = static_cast<std::size_t>(algorithms) * static_cast<std::size_t>(protocols);
  const std::span matrix(reinterpret_cast<float*>(costs), entries);
  if (prefer(*rule, matrix, protocols) && rule->channels > 0) {
    *channels = static_cast<int>(rule->channels);
  }
  return kSuccess;
}

// ---- the versions -------------------------------------------------------------------------

int open_v3(std::size_t ranks, std::size_t, Logger log, void** context) {
  return open_tuner(ranks, log, context);
}
int open_v5(void** context, std::uint64_t, std::size_t ranks, std::size_t, Logger log, void*,
            void*) {
  return open_tuner(ranks, log, context);
}
int choose_v3(void* context, int collective, std::size_t bytes, int, float** costs, int algorithms,
              int protocols, int* channels) {
  return choose(context, collective, bytes, costs, algorithms, protocols, channels);
}
int choose_v4(void* context, int collective, std::size_t bytes, int, float** costs, int algorithms,
              int protocols, int, int* channels) {
  return choose(context, collective, bytes, costs, algorithms, protocols, channels);
}

struct TunerV3 {
  const char* name;
  decltype(&open_v3) open;
  decltype(&choose_v3) choose;
  decltype(&close_tuner) close;
};
struct TunerV4 {
  const char* name;
  decltype(&open_v3) open;
  decltype(&choose_v4) choose;
  decltype(&close_tuner) close;
};
struct TunerV5 {
  const char* name;
  decltype(&open_v5) open;
  decltype(&choose_v4) choose;
  decltype(&close_tuner) close;
};
/// Also version 7. NCCL's chunk sizes stay: the last member may be null.
struct TunerV6 {
  const char* name;
  decltype(&open_v5) open;
  decltype(&choose_v4) choose;
  decltype(&close_tuner) close;
  int (*chunk_size)(void*, int, std::size_t, int, int, int, std::size_t*);
};

constexpr const char* kName = "orrery";

}  // namespace

extern "C" {
#define ORRERY_EXPORT __attribute__((visibility("default")))
extern const TunerV3 ncclTunerPlugin_v3 ORRERY_EXPORT;
extern const TunerV4 ncclTunerPlugin_v4 ORRERY_EXPORT;
extern const TunerV5 ncclTunerPlugin_v5 ORRERY_EXPORT;
extern const TunerV6 ncclTunerPlugin_v6 ORRERY_EXPORT;
extern const TunerV6 ncclTunerPlugin_v7 ORRERY_EXPORT;
const TunerV3 ncclTunerPlugin_v3{kName, open_v3, choose_v3, close_tuner};
const TunerV4 ncclTunerPlugin_v4{kName, open_v3, choose_v4, close_tuner};
const TunerV5 ncclTunerPlugin_v5{kName, open_v5, choose_v4, close_tuner};
const TunerV6 ncclTunerPlugin_v6{kName, open_v5, choose_v4, close_tuner, nullptr};
const TunerV6 ncclTunerPlugin_v7{kName, open_v5, choose_v4, close_tuner, nullptr};
}
