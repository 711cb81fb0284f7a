/* CUDA as TransformerStep's machine: every body a kernel, products by cuBLASLt in fp32 (no TF32:
   gradients are compared with the CPU's). cuBLASLt is loaded when asked for, so that the module
   loads without it. One stream, one thread. Failures are thrown as std::runtime_error. */
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>
#include <string>

#include <cublasLt.h>
#include <cuda_runtime.h>

#include "live/cuda/transformer_step.hpp"

namespace orrery::live::gpu {

inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}
inline void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string(what) + ": cuBLASLt error " + std::to_string(status));
}

/// Functions of libcublasLt.
struct CublasLt {
  CublasLt() {
    void* library = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_LOCAL);
    if (!library) throw std::runtime_error(std::string("no cuBLASLt: ") + dlerror());
    find(library, "cublasLtCreate", create);
    find(library, "cublasLtDestroy", destroy);
    find(library, "cublasLtMatmul", matmul);
    find(library, "cublasLtMatmulAlgoGetHeuristic", choose);
    find(library, "cublasLtMatmulDescCreate", describe);
    find(library, "cublasLtMatmulDescSetAttribute", set_description);
    find(library, "cublasLtMatrixLayoutCreate", lay_out);
    find(library, "cublasLtMatrixLayoutSetAttribute", set_layout);
    find(library, "cublasLtMatmulPreferenceCreate", prefer);
    find(library, "cublasLtMatmulPreferenceSetAttribute", set_preference);
    find(library, "cublasLtMatmulPreferenceDestroy", forget_preference);
  }
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) choose;
  decltype(&cublasLtMatmulDescCreate) describe;
  decltype(&cublasLtMatmulDescSetAttribute) set_description;
  decltype(&cublasLtMatrixLayoutCreate) lay_out;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout;
  decltype(&cublasLtMatmulPreferenceCreate) prefer;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) forget_preference;

 private:
  template <class Function>
  static void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (!function) throw std::runtime_error(std::string("cuBLASLt lacks ") + name);
  }
};

constexpr int kTeam = 32, kBlock = 256;

/// Warp as a team: after a sum or maximum all lanes may read the values that a lane wrote before
/// it.
struct WarpTeam {
  __device__ u64 lane() const { return threadIdx.x % kTeam; }
  __device__ u64 lanes() const { return kTeam; }
  __device__ float sum(float value) const {
    __syncwarp();
    for (int half = kTeam / 2; half > 0; half /= 2) {
      value += __shfl_xor_sync(0xFFFFFFFFu, value, half);
    }
    __syncwarp();
    return value;
  }
  __device__ float max(float value) const {
    __syncwarp();
    for (int half = kTeam / 2; half > 0; half /= 2) {
      value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFu, value, half));
    }
    __syncwarp();
    return value;
  }
};

template <class Body>
__global__ void run_each(u64 count, Body body) {
  const u64 step = u64{gridDim.x} * blockDim.x;
  for (u64 i = u64{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) body(i);
}

/// Adds the sums of a body for all items to `total`: per thread, then per warp, in any order, since
/// whole numbers add up alike.
template <class Body>
__global__ void sum_each(u64 count, Body body, WordSums* total) {
  WordSums sums;
  const u64 step = u64{gridDim.x} * blockDim.x;
  for (u64 i = u64{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) body(i, sums);
  for (int half = kTeam / 2; half > 0; half /= 2) {
    sums.sum += __shfl_xor_sync(0xFFFFFFFFu, sums.sum, half);
    sums.weighted += __shfl_xor_sync(0xFFFFFFFFu, sums.weighted, half);
  }
  if (threadIdx.x % kTeam != 0) return;
  atomicAdd(reinterpret_cast<unsigned long long*>(&total->sum), sums.sum);
  atomicAdd(reinterpret_cast<unsigned long long*>(&total->weighted), sums.weighted);
}

/// Runs a body for each item with one warp; all lanes of a warp have the same item, so none leaves
/// a sum early.
template <class Body>
__global__ void run_teams(u64 count, Body body) {
  const u64 step = u64{gridDim.x} * blockDim.x / kTeam;
  const u64 first = (u64{blockIdx.x} * blockDim.x + threadIdx.x) / kTeam;
  for (u64 i = first; i < count; i += step) body(i, WarpTeam{});
}

/// GPU as the machine of TransformerStep: memory, kernels and matrix products on one stream.
class GpuMachine {
 public:
  using Team = WarpTeam;

  explicit GpuMachine(int device) : device_(device) {
    use_device();
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
    check(library_.create(&handle_), "cuBLASLt");
    check(cudaMalloc(&workspace_, kWorkspace), "memory for products");
    check(cudaMalloc(&sums_, sizeof(WordSums)), "memory for a checksum");
  }
  ~GpuMachine() {
    cudaSetDevice(device_);
    cudaStreamSynchronize(stream);
    if (handle_) library_.destroy(handle_);
    cudaFree(workspace_);
    cudaFree(sums_);
    cudaStreamDestroy(stream);
  }
  GpuMachine(const GpuMachine&) = delete;
  GpuMachine& operator=(const GpuMachine&) = delete;

  /// Selects the GPU for the calling thread; every external call begins with it.
  void use_device() const { check(cudaSetDevice(device_), "the GPU"); }

  template <class Body>
  void for_each(u64 count, const Body& body) {
    if (count == 0) return;
    run_each<<<blocks(count), kBlock, 0, stream>>>(count, body);
    check(cudaGetLastError(), "a kernel");
  }
  template <class Body>
  void teams(u64 count, const Body& body) {
    if (count == 0) return;
    run_teams<<<blocks(count * kTeam), kBlock, 0, stream>>>(count, body);
    check(cudaGetLastError(), "a kernel");
  }
  /// Blocks until all earlier work is done, too.
  template <class Body>
  WordSums sum_words(u64 count, const Body& body) {
    WordSums sums;
    zero(sums_, sizeof sums);
    if (count > 0) {
      sum_each<<<std::min(blocks(count), kSumBlocks), kBlock, 0, stream>>>(count, body, sums_);
      check(cudaGetLastError(), "a kernel");
    }
    download_bytes(&sums, sums_, sizeof sums);
    return sums;
  }

  void multiply_matrices(const Product& p) {
    const Plan& plan = plan_for(p);
    check(library_.matmul(handle_, plan.product, &p.alpha, p.a, plan.a, p.b, plan.b, &p.beta, p.c,
                          plan.c, p.c, plan.c, &plan.algorithm, workspace_, kWorkspace, stream),
          "a product");
  }

  void* allocate_bytes(u64 bytes) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes), "memory");
    return memory;
  }
  void release(void* memory) {
    cudaSetDevice(device_);
    cudaFree(memory);  // waits for kernels that use it
  }
  void zero(void* memory, u64 bytes) { check(cudaMemsetAsync(memory, 0, bytes, stream), "zeros"); }
  /// Copies to the device and blocks until the copy is done.
  void upload_bytes(void* to, const void* from, u64 bytes) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "a copy");
    check(cudaStreamSynchronize(stream), "a copy");
  }
  void download_bytes(void* to, const void* from, u64 bytes) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream), "a copy");
    check(cudaStreamSynchronize(stream), "the GPU's work");
  }

  cudaStream_t stream = nullptr;

 private:
  static constexpr size_t kWorkspace = size_t{32} << 20;
  static constexpr unsigned kSumBlocks = 4096;  ///< keeps the additions to one sum few
  using Key = std::array<u64, 16>;
  struct Plan {
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
  };

  static unsigned blocks(u64 threads) {
    const u64 count = (threads + kBlock - 1) / kBlock;
    return static_cast<unsigned>(count > 65535 ? 65535 : count);
  }

  /// Largest power of two, up to 256, that address, leading dimension and stride keep to.
  static u64 alignment(const float* at, u64 lead, u64 stride) {
    const u64 all = reinterpret_cast<u64>(at) | (4 * lead) | (4 * stride) | 256;
    return all & (~all + 1);
  }

  cublasLtMatrixLayout_t layout(u64 rows, u64 columns, u64 lead, u64 many, u64 stride) const {
    cublasLtMatrixLayout_t made = nullptr;
    check(library_.lay_out(&made, CUDA_R_32F, rows, columns, static_cast<int64_t>(lead)),
          "a matrix");
    const auto count = static_cast<int32_t>(many);
    const auto distance = static_cast<int64_t>(stride);
    check(library_.set_layout(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
          "a matrix");
    check(library_.set_layout(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &distance,
                              sizeof distance),
          "a matrix");
    return made;
  }

  const Plan& plan_for(const Product& p) {
    const u64 a = alignment(p.a, p.a_lead, p.a_stride), b = alignment(p.b, p.b_lead, p.b_stride);
    const u64 c = alignment(p.c, p.c_lead, p.c_stride);
    const Key key{p.m,      p.n,        p.k,        p.a_lead,   u64{p.a_turned}, p.b_lead,
                  u64{p.b_turned}, p.c_lead, p.many, p.a_stride, p.b_stride,      p.c_stride,
                  a,        b,          c,          u64{p.beta == 0.0f}};
    const auto known = plans_.find(key);
    if (known != plans_.end()) return known->second;
    return plans_.emplace(key, make_plan(p, a, b, c)).first->second;
  }

  /// Plans are few and kept until the machine goes; so are their descriptions.
  Plan make_plan(const Product& p, u64 a_align, u64 b_align, u64 c_align) const {
    Plan plan{};
    check(library_.describe(&plan.product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a product");
    const auto turn = [](bool turned) { return turned ? CUBLAS_OP_T : CUBLAS_OP_N; };
    const cublasOperation_t turn_a = turn(p.a_turned), turn_b = turn(p.b_turned);
    check(library_.set_description(plan.product, CUBLASLT_MATMUL_DESC_TRANSA, &turn_a,
                                   sizeof turn_a), "a product");
    check(library_.set_description(plan.product, CUBLASLT_MATMUL_DESC_TRANSB, &turn_b,
                                   sizeof turn_b), "a product");
    const u64 m = p.m, n = p.n, k = p.k;
    plan.a = layout(p.a_turned ? k : m, p.a_turned ? m : k, p.a_lead, p.many, p.a_stride);
    plan.b = layout(p.b_turned ? n : k, p.b_turned ? k : n, p.b_lead, p.many, p.b_stride);
    plan.c = layout(m, n, p.c_lead, p.many, p.c_stride);
    cublasLtMatmulPreference_t wish = nullptr;
    check(library_.prefer(&wish), "a product");
    set_wish(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
    set_wish(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<uint32_t>(a_align));
    set_wish(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<uint32_t>(b_align));
    set_wish(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<uint32_t>(c_align));
    set_wish(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<uint32_t>(c_align));
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status = library_.choose(handle_, plan.product, plan.a, plan.b, plan.c,
                                                  plan.c, wish, 1, &found, &count);
    library_.forget_preference(wish);
    check(status, "choosing how to multiply");
    if (count == 0) throw std::runtime_error("cuBLASLt knows no way to multiply these shapes");
    plan.algorithm = found.algo;
    return plan;
  }
  template <class Value>
  void set_wish(cublasLtMatmulPreference_t wish, cublasLtMatmulPreferenceAttributes_t which,
                Value value) const {
    check(library_.set_preference(wish, which, &value, sizeof value), "a product");
  }

  const int device_;
  const CublasLt library_;
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  WordSums* sums_ = nullptr;
  std::map<Key, Plan> plans_;
};

}  // namespace orrery::live::gpu
