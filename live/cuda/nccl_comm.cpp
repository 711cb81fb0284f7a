#include "live/cuda/nccl_comm.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

#include "live/cuda/rounds.hpp"

namespace orrery::live::gpu {
namespace {

using Clock = std::chrono::steady_clock;

/// Duration of a wait without sleeping: longer than collectives between GPUs of a node, so that
/// they are not slower than NCCL's own waiting.
constexpr std::chrono::milliseconds kAwake{5};
constexpr std::chrono::microseconds kNap{20};
/// Thread blocks of a point-to-point message.
constexpr int kLinkCtas = 4;

class Pause {
 public:
  void take() {
    if (Clock::now() - begin_ < kAwake) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }

 private:
  const Clock::time_point begin_ = Clock::now();
};

bool on_device(const void* memory) {
  cudaPointerAttributes found{};
  if (cudaPointerGetAttributes(&found, memory) != cudaSuccess) return false;
  return found.type == cudaMemoryTypeDevice || found.type == cudaMemoryTypeManaged;
}

std::size_t size_of(ncclDataType_t type) { return type == ncclInt64 ? 8 : 4; }

ncclConfig_t config(int max_ctas) {
  ncclConfig_t out = NCCL_CONFIG_INITIALIZER;
  out.blocking = 0;
  if (max_ctas > 0) {
    out.minCTAs = 1;
    out.maxCTAs = max_ctas;
  }
  return out;
}

}  // namespace

NcclComm::NcclComm(const NcclLibrary& nccl, int device, int max_ctas)
    : nccl_(nccl), device_(device), max_ctas_(max_ctas) {
  check_status(cudaSetDevice(device_), "the GPU");
  check_status(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
  check_status(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming), "an event");
}

NcclComm::~NcclComm() {
  cudaSetDevice(device_);
  give_up();
  for (const Link& link : links_) {
    for (cudaStream_t stream : {link.out_stream, link.in_stream}) {
      if (stream) cudaStreamSynchronize(stream);
      if (stream) cudaStreamDestroy(stream);
    }
  }
  if (stream_) cudaStreamSynchronize(stream_);
  cudaFree(staging_);
  if (done_) cudaEventDestroy(done_);
  if (stream_) cudaStreamDestroy(stream_);
}

/// Aborts each link's communicator in a thread of its own, whose join waits for the end.
/// ncclCommAbort ends the kernels of its communicator and then frees device memory, which waits for
/// every kernel on the GPU, also those of communicators that are not aborted yet: one after the
/// other they would wait for each other forever.
std::vector<std::jthread> NcclComm::abort_links() {
  std::vector<std::jthread> aborts;
  for (Link& link : links_) {
    for (ncclComm_t* comm : {&link.out, &link.in}) {
      if (const ncclComm_t taken = std::exchange(*comm, nullptr)) {
        aborts.emplace_back([this, taken] {
          cudaSetDevice(device_);
          nccl_.abort(taken);
        });
      }
    }
  }
  return aborts;
}

void NcclComm::give_up() {
  const std::vector<std::jthread> aborts = abort_links();
  if (comm_) nccl_.abort(comm_);
  comm_ = nullptr;
}

void NcclComm::check_status(cudaError_t status, const char* what) const {
  if (status == cudaSuccess) return;
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

void NcclComm::throw_if_aborted() {
  if (!aborted_.load(std::memory_order_acquire)) return;
  const std::scoped_lock lock(mutex_);
  throw std::runtime_error(reason_);
}

/// Checks the result of a non-blocking call, and then the state of the communicator.
void NcclComm::check_status(ncclResult_t result, ncclComm_t comm, const char* what) {
  if (result != ncclSuccess && result != ncclInProgress) {
    const char* const detail = nccl_.last_error(comm);
    throw std::runtime_error(std::string(what) + ": " + nccl_.describe(result) +
                             (detail && *detail ? std::string(" (") + detail + ")" : ""));
  }
  wait_for_completion(comm, what);
}

void NcclComm::wait_for_completion(ncclComm_t comm, const char* what) {
  for (Pause pause;; pause.take()) {
    throw_if_aborted();
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = nccl_.async_error(comm, &state);
    if (asked == ncclSuccess && state == ncclInProgress) continue;
    if (asked == ncclSuccess && state == ncclSuccess) return;
    const ncclResult_t result = asked == ncclSuccess ? state : asked;
    throw std::runtime_error(std::string(what) + ": " + nccl_.describe(result));
  }
}

/// Until everything on the stream so far is done, a rank is gone, or this one is told to stop.
void NcclComm::wait(cudaStream_t stream, ncclComm_t comm, const char* what) {
  check_status(cudaEventRecord(done_, stream), what);
  for (Pause pause;; pause.take()) {
    const cudaError_t status = cudaEventQuery(done_);
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) check_status(status, what);
    throw_if_aborted();
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = nccl_.async_error(comm, &state);
    const ncclResult_t result = asked == ncclSuccess ? state : asked;
    if (result != ncclSuccess && result != ncclInProgress) {
      throw std::runtime_error(std::string(what) + ": " + nccl_.describe(result));
    }
  }
}

void NcclComm::connect_ranks(const ncclUniqueId& id, int rank, int ranks) {
  check_status(cudaSetDevice(device_), "the GPU");
  rank_ = rank;
  ranks_ = ranks;
  ncclConfig_t how = config(max_ctas_);
  const ncclResult_t result = nccl_.join(&comm_, ranks, id, rank, &how);
  if (!comm_) check_status(result == ncclSuccess ? ncclInternalError : result, comm_, "joining");
  check_status(result, comm_, "joining");
}

/// Device memory that holds until the next call.
void* NcclComm::room(std::size_t size) {
  if (size > staging_size_) {
    cudaFree(staging_);
    staging_ = nullptr;
    staging_size_ = 0;
    check_status(cudaMalloc(&staging_, size), "memory");
    staging_size_ = size;
  }
  return staging_;
}

/// Refuses operations after a failure: the failed one may block the streams until it is aborted,
/// and nothing may be queued behind it.
template <class Action>
void NcclComm::run_operation(const Action& action) {
  throw_if_aborted();
  if (!failure_.empty()) throw std::runtime_error(failure_);
  try {
    check_status(cudaSetDevice(device_), "the GPU");
    action();
  } catch (const std::exception& problem) {
    failure_ = problem.what();
    throw;
  }
}

void NcclComm::all_reduce(void* values, std::size_t count, ncclDataType_t type) {
  run_operation([&] { do_all_reduce(values, count, type); });
}

void NcclComm::send_bytes(int peer, const void* bytes, std::size_t size) {
  run_operation([&] {
    open_links();
    do_send(peer, bytes, size);
  });
}

void NcclComm::receive_bytes(int peer, void* bytes, std::size_t size) {
  run_operation([&] {
    open_links();
    do_receive(peer, bytes, size);
  });
}

void NcclComm::do_all_reduce(void* values, std::size_t count, ncclDataType_t type) {
  if (count == 0) return;
  const std::size_t size = count * size_of(type);
  const bool direct = on_device(values);
  void* const buffer = direct ? values : room(size);
  if (!direct) {
    check_status(cudaMemcpyAsync(buffer, values, size, cudaMemcpyHostToDevice, stream_), "a copy");
  }
  check_status(nccl_.all_reduce(buffer, buffer, count, type, ncclSum, comm_, stream_), comm_,
               "an all-reduce");
  // Waits before the copy back, because a copy to host memory cannot be interrupted.
  wait(stream_, comm_, "an all-reduce");
  if (!direct) {
    check_status(cudaMemcpyAsync(values, buffer, size, cudaMemcpyDeviceToHost, stream_), "a copy");
    check_status(cudaStreamSynchronize(stream_), "a copy");
  }
  sent_ += 2 * size * static_cast<std::size_t>(ranks_ - 1) / static_cast<std::size_t>(ranks_);
}

/// All ranks open all links together, in pairs, round by round.
void NcclComm::open_links() {
  if (!links_.empty()) return;
  links_.resize(static_cast<std::size_t>(ranks_));
  for (int round = 0; round < pairing_rounds(ranks_); ++round) {
    const int peer = partner_of(rank_, ranks_, round);
    for (const bool upwards : {true, false}) open_link(peer, upwards);
  }
}

/// Opens a link from the lower rank of a pair to the higher (`upwards`), or back. `peer` -1: this
/// rank has none in this round, but takes part in the call.
void NcclComm::open_link(int peer, bool upwards) {
  Link idle;
  Link& link = peer < 0 ? idle : links_[static_cast<std::size_t>(peer)];
  const bool sends = upwards == (rank_ < peer);
  ncclComm_t& comm = peer < 0 ? nobody_ : sends ? link.out : link.in;
  ncclConfig_t how = config(kLinkCtas);
  check_status(
      nccl_.split(comm_, peer < 0 ? NCCL_SPLIT_NOCOLOR : std::min(rank_, peer), rank_, &comm, &how),
      comm_, "opening a link");
  if (peer < 0) return;
  wait_for_completion(comm, "opening a link");
  cudaStream_t& stream = sends ? link.out_stream : link.in_stream;
  check_status(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  // One byte, now that both ends are here: NCCL connects with the first message, and later ones
  // must not wait for the other end.
  const int other = rank_ < peer ? 1 : 0;
  void* const byte = room(1);
  check_status(sends ? nccl_.send(byte, 1, ncclInt8, other, comm, stream)
                     : nccl_.receive(byte, 1, ncclInt8, other, comm, stream),
               comm, "opening a link");
  wait(stream, comm, "opening a link");
}

void NcclComm::do_send(int peer, const void* bytes, std::size_t size) {
  if (size == 0) return;
  const Link& link = links_.at(static_cast<std::size_t>(peer));
  // Memory of its own, which goes once the message has left.
  void* buffer = nullptr;
  check_status(cudaMallocAsync(&buffer, size, stream_), "memory");
  check_status(cudaMemcpyAsync(buffer, bytes, size, cudaMemcpyDefault, stream_), "a copy");
  check_status(cudaStreamSynchronize(stream_), "a copy");
  check_status(nccl_.send(buffer, size, ncclInt8, rank_ < peer ? 1 : 0, link.out, link.out_stream),
               link.out, "sending");
  check_status(cudaFreeAsync(buffer, link.out_stream), "memory");
  sent_ += size;
}

void NcclComm::do_receive(int peer, void* bytes, std::size_t size) {
  if (size == 0) return;
  const Link& link = links_.at(static_cast<std::size_t>(peer));
  const bool direct = on_device(bytes);
  void* const buffer = direct ? bytes : room(size);
  check_status(nccl_.receive(buffer, size, ncclInt8, rank_ < peer ? 1 : 0, link.in, link.in_stream),
               link.in, "receiving");
  wait(link.in_stream, link.in, "receiving");
  if (direct) return;
  check_status(cudaMemcpyAsync(bytes, buffer, size, cudaMemcpyDeviceToHost, stream_), "a copy");
  check_status(cudaStreamSynchronize(stream_), "a copy");
}

void NcclComm::abort(const std::string& reason) {
  const std::scoped_lock lock(mutex_);
  if (aborted_) return;
  reason_ = reason;
  aborted_.store(true, std::memory_order_release);
}

}  // namespace orrery::live::gpu
