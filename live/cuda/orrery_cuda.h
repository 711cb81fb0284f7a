/* Table of the C functions of liborrery_cuda.so, found by one symbol. Thread-safe, except
   the codecs: one thread at a time; and a transformer or communicator: one thread at a time, but
   nccl_abort() comes from any. Functions that return int return 0, or not, and why() then says
   the error, unless they say otherwise. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define ORRERY_CUDA_VERSION 5
#define ORRERY_CUDA_TABLE_NAME "orrery_cuda_table"

/* A codec and the sizes that its rule gives for `count` values (policies/compression). */
typedef struct {
  uint32_t codec;      /* number of orrery::Codec */
  uint32_t feedback;   /* 1: error feedback */
  uint64_t count;      /* values */
  uint64_t code_size;  /* bytes */
  uint64_t block;      /* int8, int4: values of a block */
  uint64_t kept;       /* top_k */
  uint64_t rows, columns, rank; /* power_sgd */
} OrreryCodec;

/* Bytes of fp32 values a second, in and out of device memory. */
typedef struct {
  double encode, decode;
  double copy; /* Rate of a copy within device memory, bytes read + written. */
  double encode_moved, decode_moved; /* memory traffic, in the unit of `copy` */
} OrreryCodecSpeed;

/* A decoder transformer on a device (live/cuda/transformer_step.hpp); its values lie there. */
typedef struct OrreryTransformer OrreryTransformer;
typedef struct { uint64_t layers, hidden, heads, wide, vocabulary; } OrreryShape;
/* Its values, each as large as all parameters: these, their gradient, Adam's two moments. */
typedef enum {
  ORRERY_PARAMETERS, ORRERY_GRADIENT, ORRERY_MEAN, ORRERY_SQUARE
} OrreryPart;

/* Checksum of parameters and moments (live/checkpoint/checksum.hpp), modulo 2^64. */
typedef struct { uint64_t sum, weighted; } OrreryChecksum;

/* One rank's NCCL communicator (live/cuda/nccl_comm.hpp). */
typedef struct OrreryComm OrreryComm;
#define ORRERY_NCCL_ID_SIZE 128

typedef struct {
  uint32_t version;
  /* Writes a JSON object: reason (why there is no device; "" if there is one), runtime_version,
     driver_version, nccl_version, nccl_problem, devices [{name, memory_bytes, multiprocessors,
     compute_capability, pci_address}]. Returns 0, or 1 if it does not fit into `size` bytes. */
  int (*probe)(char* json, size_t size);
  /* Null where the module was built without a CUDA compiler. All pointers are host memory; the work
     is done on the device. Return 0, or a cudaError_t. `residual` (count values) and `basis`
     (columns x rank, refreshed by the caller) are read and written, as CodecState's. */
  int (*codec_encode)(const OrreryCodec* codec, const float* values, float* residual, float* basis,
                      void* code);
  int (*codec_decode)(const OrreryCodec* codec, const void* code, float* values);
  int (*codec_speed)(const OrreryCodec* codec, OrreryCodecSpeed* speed);

  /* Returns the last error of this thread; valid until the next call. */
  const char* (*why)(void);

  /* Null without a CUDA compiler. All values are 0 at first. */
  int (*transformer_open)(const OrreryShape* shape, int device, OrreryTransformer** model);
  void (*transformer_close)(OrreryTransformer* model);
  uint64_t (*transformer_size)(const OrreryTransformer* model);
  /* From and to host memory, transformer_size() values. */
  int (*transformer_write)(OrreryTransformer* model, OrreryPart which, const float* values);
  int (*transformer_read)(OrreryTransformer* model, OrreryPart which, float* values);
  int (*transformer_zero_gradient)(OrreryTransformer* model);
  /* `sequences` of length + 1 bytes each, one after the other; `loss` in nats, summed. */
  int (*transformer_accumulate)(OrreryTransformer* model, const uint8_t* bytes,
                                uint64_t sequences, uint64_t length, double* loss);
  /* `change`: the checksum of the values written less that of those overwritten. */
  int (*transformer_update)(OrreryTransformer* model, float rate, float scale,
                            OrreryChecksum* change);
  /* Reads parameters and moments in device memory. */
  int (*transformer_checksum)(OrreryTransformer* model, OrreryChecksum* state);
  /* Seconds of an fp32 product (m x k) (k x n), the mean of `times`. */
  int (*product_time)(int device, uint64_t m, uint64_t n, uint64_t k, uint32_t times,
                      double* seconds);

  /* Loads NCCL ("libnccl.so.2") before all other nccl_ functions; once, the first path stays.
     `version` becomes 22809 for 2.28.9. */
  int (*nccl_load)(const char* library, int* version);
  /* Identity of a communicator for all ranks; its rank 0 is in the process that made it. */
  int (*nccl_make_id)(uint8_t id[ORRERY_NCCL_ID_SIZE]);
  /* These open, use and close an NcclComm (nccl_comm.hpp), as its methods of the same meaning. */
  int (*nccl_open)(int device, int max_ctas, OrreryComm** comm);
  int (*nccl_connect)(OrreryComm* comm, const uint8_t id[ORRERY_NCCL_ID_SIZE], int rank,
                      int ranks);
  void (*nccl_close)(OrreryComm* comm);
  /* Sums in place; values in device or host memory. */
  int (*nccl_all_reduce)(OrreryComm* comm, float* values, uint64_t count);
  int (*nccl_all_reduce_integers)(OrreryComm* comm, int64_t* values, uint64_t count);
  int (*nccl_send)(OrreryComm* comm, int peer, const void* bytes, uint64_t size);
  int (*nccl_receive)(OrreryComm* comm, int peer, void* bytes, uint64_t size);
  void (*nccl_abort)(OrreryComm* comm, const char* reason);
  int (*nccl_place)(const OrreryComm* comm, int* ranks); /* returns the rank */
  uint64_t (*nccl_bytes_sent)(const OrreryComm* comm);
} OrreryCudaTable;
