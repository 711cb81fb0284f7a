// NcclComm (nccl_comm.hpp) behind the C functions of orrery_cuda.h, whose comments describe them.
// Functions that return int return 0, or 1 after storing the message of the failure for why() of
// the table; exceptions: orrery_nccl_place() returns the rank and stores the number of ranks, and
// orrery_nccl_abort() and orrery_nccl_close() cannot fail. orrery_nccl_load() comes first; the
// library that it first loaded stays. orrery_nccl_open() creates a communicator, which
// orrery_nccl_close() deletes. The others call the NcclComm method of the same meaning.
#pragma once

#include "live/cuda/orrery_cuda.h"

int orrery_nccl_load(const char* library, int* version);
int orrery_nccl_make_id(uint8_t id[ORRERY_NCCL_ID_SIZE]);
int orrery_nccl_open(int device, int max_ctas, OrreryComm** comm);
int orrery_nccl_connect(OrreryComm* comm, const uint8_t id[ORRERY_NCCL_ID_SIZE], int rank,
                        int ranks);
void orrery_nccl_close(OrreryComm* comm);
int orrery_nccl_all_reduce(OrreryComm* comm, float* values, uint64_t count);
int orrery_nccl_all_reduce_integers(OrreryComm* comm, int64_t* values, uint64_t count);
int orrery_nccl_send(OrreryComm* comm, int peer, const void* bytes, uint64_t size);
int orrery_nccl_receive(OrreryComm* comm, int peer, void* bytes, uint64_t size);
void orrery_nccl_abort(OrreryComm* comm, const char* reason);
int orrery_nccl_place(const OrreryComm* comm, int* ranks);
uint64_t orrery_nccl_bytes_sent(const OrreryComm* comm);

/// Adds the functions to the table.
constexpr void orrery_add_nccl(OrreryCudaTable& table) {
  table.nccl_load = orrery_nccl_load;
  table.nccl_make_id = orrery_nccl_make_id;
  table.nccl_open = orrery_nccl_open;
  table.nccl_connect = orrery_nccl_connect;
  table.nccl_close = orrery_nccl_close;
  table.nccl_all_reduce = orrery_nccl_all_reduce;
  table.nccl_all_reduce_integers = orrery_nccl_all_reduce_integers;
  table.nccl_send = orrery_nccl_send;
  table.nccl_receive = orrery_nccl_receive;
  table.nccl_abort = orrery_nccl_abort;
  table.nccl_place = orrery_nccl_place;
  table.nccl_bytes_sent = orrery_nccl_bytes_sent;
}
