// liborrery_cuda.so: everything that needs CUDA or NCCL. Links the CUDA runtime statically and
// never libcuda or NCCL, so that it loads on a machine that has neither; those are looked for
// when asked.
#include <dlfcn.h>

#include <cstring>
#include <string>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "live/cuda/codec_kernels.cuh"
#include "live/cuda/nccl.hpp"
#include "live/cuda/transformer.cuh"
#include "live/cuda/why.hpp"

namespace {

std::string cuda_version(int number) {
  return number == 0 ? "" : fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

std::string nccl_version(std::string& problem) {
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    problem = dlerror();
    return "";
  }
  const auto get = reinterpret_cast<decltype(&ncclGetVersion)>(dlsym(library, "ncclGetVersion"));
  int version = 0;
  if (!get || get(&version) != ncclSuccess) {
    problem = "libnccl.so.2 does not say its version";
    return "";
  }
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

nlohmann::json describe(int index) {
  cudaDeviceProp device{};
  if (cudaGetDeviceProperties(&device, index) != cudaSuccess) return {{"name", "unreadable"}};
  char address[32] = "";
  cudaDeviceGetPCIBusId(address, sizeof address, index);
  return {{"name", device.name},
          {"pci_address", address},
          {"memory_bytes", static_cast<double>(device.totalGlobalMem)},
          {"multiprocessors", device.multiProcessorCount},
          {"compute_capability", fmt::format("{}.{}", device.major, device.minor)}};
}

nlohmann::json look() {
  int runtime = 0, driver = 0, count = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);
  const cudaError_t status = cudaGetDeviceCount(&count);
  std::string reason, nccl_problem;
  const std::string nccl = nccl_version(nccl_problem);
  if (driver == 0) {
    reason = "there is no NVIDIA driver";
  } else if (status != cudaSuccess) {
    reason = cudaGetErrorString(status);
  } else if (count == 0) {
    reason = "the NVIDIA driver finds no GPU";
  }
  nlohmann::json devices = nlohmann::json::array();
  for (int i = 0; status == cudaSuccess && i < count; ++i) devices.push_back(describe(i));
  return {{"reason", reason},
          {"runtime_version", cuda_version(runtime)},
          {"driver_version", cuda_version(driver)},
          {"nccl_version", nccl},
          {"nccl_problem", nccl_problem},
          {"devices", devices}};
}

int probe(char* json, size_t size) {
  const std::string text = look().dump();
  if (text.size() >= size) return 1;
  std::memcpy(json, text.c_str(), text.size() + 1);
  return 0;
}

const char* last_reason() { return orrery::live::gpu::why().c_str(); }

/// Returns the table; without a CUDA compiler the functions with kernels are null.
constexpr OrreryCudaTable make_table() {
  OrreryCudaTable table{};
  table.version = ORRERY_CUDA_VERSION;
  table.probe = probe;
  table.why = last_reason;
#ifdef ORRERY_CUDA_KERNELS
  table.codec_encode = orrery_codec_encode;
  table.codec_decode = orrery_codec_decode;
  table.codec_speed = orrery_codec_speed;
  table.transformer_open = orrery_transformer_open;
  table.transformer_close = orrery_transformer_close;
  table.transformer_size = orrery_transformer_size;
  table.transformer_write = orrery_transformer_write;
  table.transformer_read = orrery_transformer_read;
  table.transformer_zero_gradient = orrery_transformer_zero_gradient;
  table.transformer_accumulate = orrery_transformer_accumulate;
  table.transformer_update = orrery_transformer_update;
  table.transformer_checksum = orrery_transformer_checksum;
  table.product_time = orrery_product_time;
#endif
  orrery_add_nccl(table);
  return table;
}

constexpr OrreryCudaTable kTable = make_table();

}  // namespace

extern "C" __attribute__((visibility("default"))) const OrreryCudaTable* orrery_cuda_table() {
  return &kTable;
}
