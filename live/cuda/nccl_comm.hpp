// One rank's NCCL communicator, so that it can be given up at any moment. Communicators are
// non-blocking; whoever waits asks for NCCL's errors and for abort() in turn, so no call is ever
// stuck where nobody can end it, and only one thread is ever inside NCCL (which ncclCommAbort asks
// for). Operations come from one thread, abort() from any. Failures are thrown as
// std::runtime_error; after one only revoke(), shrink() and the destructor make sense.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "live/cuda/nccl_library.hpp"

namespace orrery::live::gpu {

class NcclComm {
 public:
  /// `max_ctas`: thread blocks that NCCL may take of the GPU; 0: as it likes.
  NcclComm(const NcclLibrary& nccl, int device, int max_ctas);
  /// Aborts what still runs, on the GPU too, before its memory goes.
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  /// Joins the ranks that were given the same id. Returns when all have.
  void connect(const ncclUniqueId& id, int rank, int ranks);
  /// In place; `values` lie in device memory (no copy then) or in host memory.
  void all_reduce(void* values, std::size_t count, ncclDataType_t type);
  /// Returns when the bytes may be overwritten, whether or not they are wanted yet.
  void send(int peer, const void* bytes, std::size_t size);
  void receive(int peer, void* bytes, std::size_t size);

  /// Wakes the operation under way; it and all later ones throw.
  void abort(const std::string& reason);
  /// Stops what runs on the GPU, so that shrink() may follow. False: this NCCL cannot.
  bool revoke();
  /// A communicator of the ranks that are not in `excluded`, called by them alone; works also after
  /// a failure. Throws if this NCCL cannot.
  std::unique_ptr<NcclComm> shrink(std::vector<int> excluded);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  std::uint64_t bytes_sent() const { return sent_; }

 private:
  /// To and from one other rank: a communicator of two for each direction, so that a message that
  /// nobody has taken yet holds up no other.
  struct Link {
    ncclComm_t out = nullptr, in = nullptr;
    cudaStream_t out_stream = nullptr, in_stream = nullptr;
  };
  template <class Action>
  void operate(const Action& action);
  void do_all_reduce(void* values, std::size_t count, ncclDataType_t type);
  void do_send(int peer, const void* bytes, std::size_t size);
  void do_receive(int peer, void* bytes, std::size_t size);
  void check(cudaError_t status, const char* what) const;
  void check(ncclResult_t result, ncclComm_t comm, const char* what);
  void settle(ncclComm_t comm, const char* what);
  void wait(cudaStream_t stream, ncclComm_t comm, const char* what);
  void throw_if_aborted();
  void* room(std::size_t size);
  void open_links();
  void open_link(int peer, bool upwards);
  void await_smaller(NcclComm& smaller);
  void drop_links();
  void give_up();

  const NcclLibrary& nccl_;
  const int device_, max_ctas_;
  int rank_ = 0, ranks_ = 0;
  ncclComm_t comm_ = nullptr;
  ncclComm_t nobody_ = nullptr;  ///< where NCCL writes that a rank is in no group
  cudaStream_t stream_ = nullptr;
  cudaEvent_t done_ = nullptr;
  void* staging_ = nullptr;
  std::size_t staging_size_ = 0;
  std::vector<Link> links_;  ///< by peer; empty: not opened yet
  std::uint64_t sent_ = 0;
  std::string failure_;      ///< of the first operation that failed
  std::atomic<bool> aborted_{false};
  std::mutex mutex_;  // of the reason
  std::string reason_;
};

}  // namespace orrery::live::gpu
