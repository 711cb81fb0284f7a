// A libnccl.so.2 for the tests: ranks are threads of one process, all communicators non-blocking.
// Like the real one it takes a while to be ready, leaves operations running on the stream until
// they are done or aborted, wants a message taken before it is sent, and says ncclRemoteError once
// a rank is gone (unless told to hang instead); an abort waits for all operations of its GPU.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <nccl.h>

#include "tests/live/cuda/fake_stream.hpp"

using orrery::live::gpu::FakeStream;

namespace {

struct Sum {
  std::vector<std::byte> values;
  int arrived = 0;
};

struct Message {
  const void* from = nullptr;
  bool taken = false;
};

/// State that the ranks of one communicator share.
struct Hub {
  int ranks = 0, joined = 0;
  bool gone = false;  ///< one of them is
  std::map<int, Sum> sums;                                     ///< keyed by call
  std::map<std::pair<int, int>, std::map<int, Message>> mail;  ///< keyed by pair, then call
  /// keyed by call, then rank: color, key
  std::map<int, std::map<int, std::pair<int, int>>> splits;
  std::map<std::pair<int, int>, std::shared_ptr<Hub>> groups;  ///< keyed by call and color
};

std::mutex mutex;  // guards everything that ranks share
std::condition_variable changed;
std::map<std::string, std::shared_ptr<Hub>> hubs;
std::atomic<int> ids{0};

}  // namespace

extern "C" {
/// 0: a rank that is gone is not noticed; its collectives just never end.
std::atomic<int> fake_nccl_notices{1};
/// Calls during another call on the same communicator.
std::atomic<int> fake_nccl_overlaps{0};
}

/// A rank's GPU, which its communicators share.
struct Gpu {
  int running = 0;  ///< operations on streams
};

struct ncclComm {
  std::shared_ptr<Hub> hub;
  std::shared_ptr<Gpu> gpu = std::make_shared<Gpu>();
  int rank = 0;
  bool aborted = false, ready = false, failed = false;
  int running = 0;  ///< operations on streams
  int sums = 0, splits = 0;
  std::map<std::pair<int, int>, int> mails;
  std::atomic<int> busy_polls{0}, inside{0};
  std::jthread starter;
};

namespace {

struct Inside {
  explicit Inside(ncclComm* c) : comm(c) {
    if (++comm->inside > 1) ++fake_nccl_overlaps;
  }
  ~Inside() { --comm->inside; }
  ncclComm* comm;
};

void notice(ncclComm* comm) {
  if (comm->hub->gone && fake_nccl_notices) comm->failed = true;
}

/// Waits for `met`; false if the communicator was aborted. A rank that is gone makes it fail.
template <class Met>
bool wait_for(ncclComm* comm, std::unique_lock<std::mutex>& lock, const Met& met) {
  changed.wait(lock, [&] {
    notice(comm);
    return comm->aborted || met();
  });
  return !comm->aborted;
}

void start(ncclComm* comm, std::shared_ptr<Hub> hub, int rank) {
  comm->hub = std::move(hub);
  comm->rank = rank;
  ++comm->hub->joined;
  changed.notify_all();
}

ncclResult_t on_stream(ncclComm* comm, cudaStream_t stream, std::function<void()> work) {
  {
    const std::scoped_lock lock(mutex);
    if (comm->failed) return ncclRemoteError;
    ++comm->running;
    ++comm->gpu->running;
  }
  comm->busy_polls = 3;
  reinterpret_cast<FakeStream*>(stream)->run([comm, work] {
    work();
    const std::scoped_lock lock(mutex);
    --comm->running;
    --comm->gpu->running;
    changed.notify_all();
  });
  return ncclInProgress;
}

template <class T>
void add(std::vector<std::byte>& sum, const void* values, std::size_t count) {
  const T* const from = static_cast<const T*>(values);
  T* const to = reinterpret_cast<T*>(sum.data());
  for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
}

void finish_split(ncclComm* comm, int call, ncclComm** out) {
  std::unique_lock lock(mutex);
  auto& all = comm->hub->splits[call];
  const bool met = wait_for(
      comm, lock, [&] { return static_cast<int>(all.size()) == comm->hub->ranks; });
  if (!met) return;
  const int color = all[comm->rank].first;
  if (color != NCCL_SPLIT_NOCOLOR) {
    std::vector<int> members;
    for (const auto& [rank, wish] : all) {
      if (wish.first == color) members.push_back(rank);
    }
    std::sort(members.begin(), members.end(),
              [&](int a, int b) { return all[a].second < all[b].second; });
    auto& hub = comm->hub->groups[{call, color}];
    if (!hub) hub = std::make_shared<Hub>();
    hub->ranks = static_cast<int>(members.size());
    auto* const child = new ncclComm;
    child->gpu = comm->gpu;
    const auto at = std::find(members.begin(), members.end(), comm->rank) - members.begin();
    start(child, hub, static_cast<int>(at));
    child->ready = true;
    *out = child;
  }
  comm->ready = true;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id, 0, sizeof *id);
  const int number = ++ids;
  std::memcpy(id, &number, sizeof number);
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited" : "an NCCL error";
}
const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclCommInitRankConfig(ncclComm_t* out, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 0 || config->magic != 0xcafebeef) return ncclInvalidArgument;
  auto* const comm = new ncclComm;
  *out = comm;
  {
    const std::scoped_lock lock(mutex);
    auto& hub = hubs[std::string(id.internal, sizeof id.internal)];
    if (!hub) hub = std::make_shared<Hub>();
    hub->ranks = ranks;
    start(comm, hub, rank);
  }
  comm->starter = std::jthread([comm] {
    std::unique_lock lock(mutex);
    comm->ready = wait_for(comm, lock, [&] { return comm->hub->joined == comm->hub->ranks; });
  });
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const Inside inside(comm);
  const std::scoped_lock lock(mutex);
  notice(comm);
  *state = comm->failed ? ncclRemoteError : comm->ready ? ncclSuccess : ncclInProgress;
  if (*state == ncclSuccess && comm->busy_polls > 0) {
    --comm->busy_polls;
    *state = ncclInProgress;
  }
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  {
    const Inside inside(comm);
    std::unique_lock lock(mutex);
    comm->aborted = true;
    comm->hub->gone = true;
    changed.notify_all();
    // Freeing device memory waits for all kernels of the GPU.
    changed.wait(lock, [comm] { return comm->gpu->running == 0; });
  }
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* out, ncclConfig_t*) {
  const Inside inside(comm);
  if (comm->starter.joinable()) comm->starter.join();
  const std::scoped_lock lock(mutex);
  const int call = comm->splits++;
  comm->hub->splits[call][comm->rank] = {color, key};
  comm->ready = false;
  changed.notify_all();
  comm->starter = std::jthread([=] { finish_split(comm, call, out); });
  return ncclInProgress;
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  const Inside inside(comm);
  const std::size_t size = count * (type == ncclInt64 ? 8 : 4);
  const int call = comm->sums++;
  return on_stream(comm, stream, [=] {
    std::unique_lock lock(mutex);
    Sum& sum = comm->hub->sums[call];
    sum.values.resize(size);
    type == ncclInt64 ? add<std::int64_t>(sum.values, from, count)
                      : add<float>(sum.values, from, count);
    ++sum.arrived;
    changed.notify_all();
    const int ranks = comm->hub->ranks;
    if (wait_for(comm, lock, [&] { return sum.arrived == ranks; })) {
      std::memcpy(to, sum.values.data(), size);
    }
  });
}

ncclResult_t ncclSend(const void* from, size_t, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  const Inside inside(comm);
  const std::pair pair(comm->rank, peer);
  const int call = comm->mails[pair]++;
  return on_stream(comm, stream, [=] {
    std::unique_lock lock(mutex);
    Message& message = comm->hub->mail[pair][call];
    message.from = from;
    changed.notify_all();
    wait_for(comm, lock, [&] { return message.taken; });
  });
}

ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  const Inside inside(comm);
  const std::pair pair(peer, comm->rank);
  const int call = comm->mails[pair]++;
  return on_stream(comm, stream, [=] {
    std::unique_lock lock(mutex);
    Message& message = comm->hub->mail[pair][call];
    if (!wait_for(comm, lock, [&] { return message.from != nullptr; })) return;
    std::memcpy(to, message.from, count);
    message.taken = true;
    changed.notify_all();
  });
}
}
