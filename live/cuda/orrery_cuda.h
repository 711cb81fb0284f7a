/* What liborrery_cuda.so offers, as a table of C functions found by one symbol. Thread-safe, except
   the codecs: one thread at a time. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define ORRERY_CUDA_VERSION 2
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
  double copy; /* of a copy within device memory, bytes read + written */
  double encode_moved, decode_moved; /* memory traffic, in the unit of `copy` */
} OrreryCodecSpeed;

typedef struct {
  uint32_t version;
  /* Writes a JSON object: reason (why there is no device; "" if there is one), runtime_version,
     driver_version, nccl_version, devices [{name, memory_bytes, multiprocessors,
     compute_capability}]. Returns 0, or 1 if it does not fit into `size` bytes. */
  int (*probe)(char* json, size_t size);
  /* Null where the module was built without a CUDA compiler. All pointers are host memory; the work
     is done on the device. Return 0, or a cudaError_t. `residual` (count values) and `basis`
     (columns x rank, refreshed by the caller) are read and written, as CodecState's. */
  int (*codec_encode)(const OrreryCodec* codec, const float* values, float* residual, float* basis,
                      void* code);
  int (*codec_decode)(const OrreryCodec* codec, const void* code, float* values);
  int (*codec_speed)(const OrreryCodec* codec, OrreryCodecSpeed* speed);
} OrreryCudaTable;
