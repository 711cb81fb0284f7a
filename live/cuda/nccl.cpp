#include "live/cuda/nccl.hpp"

#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "live/cuda/nccl_comm.hpp"
#include "live/cuda/why.hpp"

using namespace orrery::live::gpu;

struct OrreryComm {
  std::unique_ptr<NcclComm> comm;
};

namespace {

std::mutex loading;
std::unique_ptr<const NcclLibrary> loaded;

const NcclLibrary& library() {
  const std::scoped_lock lock(loading);
  if (!loaded) throw std::runtime_error("NCCL is not loaded");
  return *loaded;
}

}  // namespace

int orrery_nccl_load(const char* path, int* version) {
  return guarded([&] {
    const std::scoped_lock lock(loading);
    if (!loaded) loaded = std::make_unique<const NcclLibrary>(path);
    *version = loaded->version;
  });
}

int orrery_nccl_make_id(uint8_t id[ORRERY_NCCL_ID_SIZE]) {
  return guarded([&] {
    static_assert(sizeof(ncclUniqueId) == ORRERY_NCCL_ID_SIZE);
    ncclUniqueId fresh;
    if (const ncclResult_t result = library().unique_id(&fresh); result != ncclSuccess) {
      throw std::runtime_error(std::string("an NCCL id: ") + library().describe(result));
    }
    std::memcpy(id, &fresh, sizeof fresh);
  });
}

int orrery_nccl_open(int device, int max_ctas, OrreryComm** comm) {
  return guarded([&] {
    *comm = new OrreryComm{std::make_unique<NcclComm>(library(), device, max_ctas)};
  });
}

int orrery_nccl_connect(OrreryComm* comm, const uint8_t id[ORRERY_NCCL_ID_SIZE], int rank,
                        int ranks) {
  return guarded([&] {
    ncclUniqueId given;
    std::memcpy(&given, id, sizeof given);
    comm->comm->connect_ranks(given, rank, ranks);
  });
}

void orrery_nccl_close(OrreryComm* comm) { delete comm; }

int orrery_nccl_all_reduce(OrreryComm* comm, float* values, uint64_t count) {
  return guarded([&] { comm->comm->all_reduce(values, count, ncclFloat32); });
}

int orrery_nccl_all_reduce_integers(OrreryComm* comm, int64_t* values, uint64_t count) {
  return guarded([&] { comm->comm->all_reduce(values, count, ncclInt64); });
}

int orrery_nccl_send(OrreryComm* comm, int peer, const void* bytes, uint64_t size) {
  return guarded([&] { comm->comm->send_bytes(peer, bytes, size); });
}

int orrery_nccl_receive(OrreryComm* comm, int peer, void* bytes, uint64_t size) {
  return guarded([&] { comm->comm->receive_bytes(peer, bytes, size); });
}

void orrery_nccl_abort(OrreryComm* comm, const char* reason) { comm->comm->abort(reason); }

int orrery_nccl_place(const OrreryComm* comm, int* ranks) {
  *ranks = comm->comm->ranks();
  return comm->comm->rank();
}

uint64_t orrery_nccl_bytes_sent(const OrreryComm* comm) { return comm->comm->bytes_sent(); }
