/* What liborrery_cuda.so offers, as a table of C functions found by one symbol. Thread-safe. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define ORRERY_CUDA_VERSION 1
#define ORRERY_CUDA_TABLE_NAME "orrery_cuda_table"

typedef struct {
  uint32_t version;
  /* Writes a JSON object: reason (why there is no device; "" if there is one), runtime_version,
     driver_version, nccl_version, devices [{name, memory_bytes, multiprocessors,
     compute_capability}]. Returns 0, or 1 if it does not fit into `size` bytes. */
  int (*probe)(char* json, size_t size);
} OrreryCudaTable;
