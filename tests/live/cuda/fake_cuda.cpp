// Functions of the CUDA runtime that NcclComm uses, over host memory: one device, streams that are
// threads. "Device memory" is the memory from cudaMalloc.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

#include <cuda_runtime_api.h>

#include "tests/live/cuda/fake_stream.hpp"

using orrery::live::gpu::FakeStream;

struct CUevent_st {
  std::shared_ptr<std::atomic<bool>> done = std::make_shared<std::atomic<bool>>(true);
};

namespace {

std::mutex mutex;
std::set<const void*> device_memory;

FakeStream& of(cudaStream_t stream) { return *reinterpret_cast<FakeStream*>(stream); }

}  // namespace

cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}
const char* cudaGetErrorString(cudaError_t status) {
  return status == cudaErrorInvalidDevice ? "invalid device ordinal" : "an error";
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = reinterpret_cast<cudaStream_t>(new FakeStream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete &of(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  of(stream).synchronize_stream();
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->done = std::make_shared<std::atomic<bool>>(false);
  of(stream).run([done = event->done] { *done = true; });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return *event->done ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaMalloc(void** memory, size_t size) {
  *memory = std::malloc(size);
  const std::scoped_lock lock(mutex);
  device_memory.insert(*memory);
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  const std::scoped_lock lock(mutex);
  device_memory.erase(memory);
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMallocAsync(void** memory, size_t size, cudaStream_t) {
  return cudaMalloc(memory, size);
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  of(stream).run([memory] { cudaFree(memory); });
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind,
                            cudaStream_t stream) {
  of(stream).run([=] { std::memcpy(to, from, size); });
  of(stream).synchronize_stream();  // same as copies of ordinary host memory
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  const std::scoped_lock lock(mutex);
  *attributes = {};
  attributes->type =
      device_memory.contains(memory) ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}
