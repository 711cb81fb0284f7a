// NCCL communicator of one rank, which can be given up at any moment. Communicators are
// non-blocking; a waiting thread asks for NCCL's errors and for abort() in turn, so no call blocks
// without a way to end it, and only one thread at a time is inside NCCL (which ncclCommAbort
// requires). Operations come from one thread, abort() from any. Failures are thrown as
// std::runtime_error; afterwards only the destructor is
// useful. A lost rank is a failure only if NCCL reports it; otherwise operations wait for abort().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "live/cuda/nccl_library.hpp"

namespace orrery::live::gpu {

/// Communicator of one rank on one GPU.
class NcclComm {
 public:
  /// Constructs an unconnected communicator; `nccl` must outlive it. `max_ctas`: limit of NCCL's
  /// thread blocks on the GPU; 0: NCCL's default. Throws if the GPU cannot be used.
  NcclComm(const NcclLibrary& nccl, int device, int max_ctas);
  /// Aborts operations that still run, on the GPU too, before their memory is freed.
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  /// Connects the ranks with the same id; returns when all `ranks` have joined. Call once, before
  /// any operation. Throws if NCCL fails or abort() is called.
  void connect_ranks(const ncclUniqueId& id, int rank, int ranks);
  /// Replaces `values` on every rank by the sum over all ranks, and blocks until this rank has the
  /// sum. `values`: `count` elements in device memory (without a copy) or in host memory; `type`:
  /// ncclInt64 or a type of 4 bytes. All ranks call it with the same `count` and `type`; for a
  /// count of 0 nothing is sent. Call after connect_ranks(). Throws if NCCL or the GPU fails (also
  /// for lack of memory for a copy of host values), NCCL reports a lost rank, or abort() is called;
  /// the values are undefined then, and all later operations throw the message of the failure,
  /// after abort() its reason.
  void all_reduce(void* values, std::size_t count, ncclDataType_t type);
  /// Sends bytes, in device or host memory, to another rank; returns when they may be overwritten,
  /// whether or not the receiver wants them yet. Sends nothing for a size of 0. Call after
  /// connect_ranks(). Throws as all_reduce(), and std::out_of_range for an unknown rank, which is a
  /// failure too. The first send_bytes() or receive_bytes() links all pairs of ranks: the call
  /// blocks until every rank has made one of these calls.
  void send_bytes(int peer, const void* bytes, std::size_t size);
  /// Blocks until `size` bytes of `peer` have arrived; `size` is that of one send_bytes(). The
  /// first call, a size of 0 and errors: see send_bytes().
  void receive_bytes(int peer, void* bytes, std::size_t size);

  /// Wakes the current operation; it and all later ones throw `reason`. Only the first reason
  /// counts. Does not tell the other ranks. Returns at once; callable from any thread.
  void abort(const std::string& reason);

  int rank() const { return rank_; }    ///< 0 before connect_ranks()
  int ranks() const { return ranks_; }  ///< 0 before connect_ranks()
  /// Returns the bytes sent by operations that have returned so far: of messages their size, of an
  /// all-reduce of s bytes among n ranks the 2 s (n - 1) / n bytes of a ring.
  std::uint64_t bytes_sent() const { return sent_; }

 private:
  /// Links to and from one other rank: one communicator of two for each direction, so that an
  /// unreceived message blocks no other message.
  struct Link {
    ncclComm_t out = nullptr, in = nullptr;
    cudaStream_t out_stream = nullptr, in_stream = nullptr;
  };
  template <class Action>
  void run_operation(const Action& action);
  void do_all_reduce(void* values, std::size_t count, ncclDataType_t type);
  void do_send(int peer, const void* bytes, std::size_t size);
  void do_receive(int peer, void* bytes, std::size_t size);
  void check_status(cudaError_t status, const char* what) const;
  void check_status(ncclResult_t result, ncclComm_t comm, const char* what);
  void wait_for_completion(ncclComm_t comm, const char* what);
  void wait(cudaStream_t stream, ncclComm_t comm, const char* what);
  void throw_if_aborted();
  void* room(std::size_t size);
  void open_links();
  void open_link(int peer, bool upwards);
  std::vector<std::jthread> abort_links();
  void give_up();

  const NcclLibrary& nccl_;
  const int device_, max_ctas_;
  int rank_ = 0, ranks_ = 0;
  ncclComm_t comm_ = nullptr;
  ncclComm_t nobody_ = nullptr;  ///< result of NCCL for a rank in no group
  cudaStream_t stream_ = nullptr;
  cudaEvent_t done_ = nullptr;
  void* staging_ = nullptr;
  std::size_t staging_size_ = 0;
  std::vector<Link> links_;  ///< indexed by peer; empty: not opened yet
  std::atomic<std::uint64_t> sent_{0};  ///< Read by the heartbeat thread too.
  std::string failure_;      ///< message of the first failed operation
  std::atomic<bool> aborted_{false};
  std::mutex mutex_;  // guards the reason
  std::string reason_;
};

}  // namespace orrery::live::gpu
