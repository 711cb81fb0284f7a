// The codecs on the device. Every value's arithmetic is live/codec/arithmetic.hpp, the same source
// as on the CPU, compiled without fused operations; sums run in the CPU's order (32 lanes, then
// pairwise): codes are equal byte for byte.
#include <cuda_runtime.h>

#include "live/cuda/codec_kernels.cuh"
#include "live/cuda/single_pass_kernels.cuh"

namespace {

// ---- every value for itself ---------------------------------------------------------------

__global__ void add_values(float* sum, const float* values, u64 count) {
  for (u64 i = thread_index(); i < count; i += thread_count()) sum[i] += values[i];
}

__global__ void keep_rest(float* wanted, const float* decoded, u64 count) {
  for (u64 i = thread_index(); i < count; i += thread_count()) {
    wanted[i] = residual_of(wanted[i], decoded[i]);
  }
}

// ---- top_k: the threshold by four histograms, then a stable compaction --------------------

struct Selection {
  u32 prefix;  // magnitude bits that are known so far
  u32 left;    // values still to be kept among those with that prefix
  u32 histogram[256];
};

__global__ void count_digits(const float* values, u64 count, int shift, Selection* selection) {
  __shared__ u32 local[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
  __syncthreads();
  for (u64 i = thread_index(); i < count; i += thread_count()) {
    const u32 size = magnitude(values[i]);
    const bool same = shift == 24 || (size >> (shift + 8)) == (selection->prefix >> (shift + 8));
    if (same) atomicAdd(&local[(size >> shift) & 0xFF], 1u);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) {
    if (local[i] > 0) atomicAdd(&selection->histogram[i], local[i]);
  }
}

/// One thread: the digit in which the kept-th largest lies.
__global__ void choose_digit(int shift, Selection* selection) {
  u32 above = 0;
  int digit = 255;
  while (digit > 0 && above + selection->histogram[digit] < selection->left) {
    above += selection->histogram[digit--];
  }
  selection->left -= above;
  selection->prefix |= static_cast<u32>(digit) << shift;
  for (u32& each : selection->histogram) each = 0;
}

/// Values of one thread's slice that are larger than the threshold, and that equal it.
__global__ void count_slices(const float* values, u64 count, u64 slice, const Selection* selection,
                             u32* larger, u32* equal) {
  const u64 first = thread_index() * slice;
  if (first >= count) return;
  u32 more = 0, same = 0;
  for (u64 i = first; i < first + slice && i < count; ++i) {
    const u32 size = magnitude(values[i]);
    more += size > selection->prefix;
    same += size == selection->prefix;
  }
  larger[thread_index()] = more;
  equal[thread_index()] = same;
}

/// One thread: sums of all slices before each one.
__global__ void sum_slices(u64 slices, u32* larger, u32* equal) {
  u32 more = 0, same = 0;
  for (u64 i = 0; i < slices; ++i) {
    const u32 own_more = larger[i], own_same = equal[i];
    larger[i] = more;
    equal[i] = same;
    more += own_more;
    same += own_same;
  }
}

__global__ void write_slices(const float* values, u64 count, u64 slice, const Selection* selection,
                             const u32* larger, const u32* equal, u64 kept, u32* indices,
                             float* kept_values) {
  const u64 first = thread_index() * slice;
  if (first >= count) return;
  u32 more = larger[thread_index()], same = equal[thread_index()];
  for (u64 i = first; i < first + slice && i < count; ++i) {
    const u32 size = magnitude(values[i]);
    const bool ties = size == selection->prefix;
    if (size > selection->prefix || (ties && same < selection->left)) {
      const u64 at = more + (same < selection->left ? same : selection->left);
      if (at < kept) {
        indices[at] = static_cast<u32>(i);
        kept_values[at] = values[i];
      }
    }
    more += size > selection->prefix;
    same += ties;
  }
}

__global__ void scatter(const u32* indices, const float* kept_values, u64 kept, u64 count,
                        float* values) {
  for (u64 i = thread_index(); i < kept; i += thread_count()) {
    if (indices[i] < count) values[indices[i]] = kept_values[i];
  }
}

// ---- power_sgd: one warp a sum ------------------------------------------------------------

__device__ float warp_sum(float value) {
  for (int half = kWarp / 2; half > 0; half /= 2) value += __shfl_down_sync(kAll, value, half);
  return __shfl_sync(kAll, value, 0);
}

__global__ void project_rows(OrreryCodec shape, const float* matrix, const float* basis,
                             float* left) {
  const u32 lane = threadIdx.x % kWarp;
  const u64 sums = shape.rows * shape.rank;
  for (u64 at = thread_index() / kWarp; at < sums; at += thread_count() / kWarp) {
    const u64 first = at / shape.rank * shape.columns, k = at % shape.rank;
    const u64 left_over = shape.count - first;
    const u64 width = left_over < shape.columns ? left_over : shape.columns;
    float sum = 0;
    for (u64 i = lane; i < width; i += kWarp) {
      sum += matrix[first + i] * basis[i * shape.rank + k];
    }
    sum = warp_sum(sum);
    if (lane == 0) left[at] = sum;
  }
}

__device__ float column_dot(const OrreryCodec& shape, const float* left, u64 a, u64 b, u32 lane) {
  float sum = 0;
  for (u64 i = lane; i < shape.rows; i += kWarp) {
    sum += left[i * shape.rank + a] * left[i * shape.rank + b];
  }
  return warp_sum(sum);
}

/// One warp: modified Gram-Schmidt is a chain.
__global__ void orthonormalise_columns(OrreryCodec shape, float* left) {
  const u32 lane = threadIdx.x;
  for (u64 k = 0; k < shape.rank; ++k) {
    const float before = column_dot(shape, left, k, k, lane);
    for (u64 earlier = 0; earlier < k; ++earlier) {
      const float share = column_dot(shape, left, earlier, k, lane);
      for (u64 i = lane; i < shape.rows; i += kWarp) {
        left[i * shape.rank + k] -= share * left[i * shape.rank + earlier];
      }
      __syncwarp();
    }
    const float square = column_dot(shape, left, k, k, lane);
    const bool independent = square > before * 1e-10f && square > 1e-30f;
    const float factor = independent ? 1.0f / sqrtf(square) : 0.0f;
    for (u64 i = lane; i < shape.rows; i += kWarp) {
      float& value = left[i * shape.rank + k];
      value = factor == 0.0f ? 0.0f : value * factor;
    }
    __syncwarp();
  }
}

__global__ void project_columns(OrreryCodec shape, const float* matrix, const float* left,
                                float* right) {
  const u32 lane = threadIdx.x % kWarp;
  const u64 sums = shape.columns * shape.rank;
  for (u64 at = thread_index() / kWarp; at < sums; at += thread_count() / kWarp) {
    const u64 column = at / shape.rank, k = at % shape.rank;
    float sum = 0;
    for (u64 row = lane; row < shape.rows; row += kWarp) {
      const u64 from = row * shape.columns + column;
      if (from < shape.count) sum += matrix[from] * left[row * shape.rank + k];
    }
    sum = warp_sum(sum);
    if (lane == 0) right[at] = sum;
  }
}

__global__ void multiply_factors(OrreryCodec shape, const float* left, const float* right,
                                 float* values) {
  for (u64 i = thread_index(); i < shape.count; i += thread_count()) {
    const float* const a = left + i / shape.columns * shape.rank;
    const float* const b = right + i % shape.columns * shape.rank;
    float sum = 0;
    for (u64 k = 0; k < shape.rank; ++k) sum += a[k] * b[k];
    values[i] = sum;
  }
}

// ---- on the host --------------------------------------------------------------------------

/// Device memory of one call.
class Buffer {
 public:
  explicit Buffer(u64 bytes) { status = cudaMalloc(&memory_, bytes < 16 ? 16 : bytes); }
  ~Buffer() { cudaFree(memory_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  template <class T>
  T* as() { return static_cast<T*>(memory_); }
  cudaError_t status;

 private:
  void* memory_ = nullptr;
};

/// Device memory of the kernels of a codec besides values and code.
struct Scratch {
  explicit Scratch(const OrreryCodec& codec)
      : decoded(4 * codec.count),
        selection(sizeof(Selection)),
        slices((codec.count + kSlice - 1) / kSlice),
        larger(4 * slices),
        equal(4 * slices) {}
  static constexpr u64 kSlice = 64;
  Buffer decoded, selection;
  u64 slices;
  Buffer larger, equal;
};

void run_top_k(const OrreryCodec& codec, const float* values, Scratch& scratch, void* code) {
  Selection start{};
  start.left = static_cast<u32>(codec.kept);
  auto* const selection = scratch.selection.as<Selection>();
  cudaMemcpy(selection, &start, sizeof start, cudaMemcpyHostToDevice);
  for (int shift = 24; shift >= 0; shift -= 8) {
    count_digits<<<grid_for(codec.count, 8 * kThreads), kThreads>>>(values, codec.count, shift,
                                                                    selection);
    choose_digit<<<1, 1>>>(shift, selection);
  }
  const unsigned grid = static_cast<unsigned>((scratch.slices + kThreads - 1) / kThreads);
  u32* const larger = scratch.larger.as<u32>();
  u32* const equal = scratch.equal.as<u32>();
  count_slices<<<grid, kThreads>>>(values, codec.count, Scratch::kSlice, selection, larger, equal);
  sum_slices<<<1, 1>>>(scratch.slices, larger, equal);
  write_slices<<<grid, kThreads>>>(values, codec.count, Scratch::kSlice, selection, larger, equal,
                                   codec.kept, static_cast<u32*>(code),
                                   static_cast<float*>(code) + codec.kept);
}

template <class Kind, bool kFeedback>
void run_blocks(const OrreryCodec& codec, const float* values, float* residual, void* code) {
  const Tiling tiling = tiling_for(codec, kTile);
  u8* const out = static_cast<u8*>(code);
  if (codec.block <= kMostShuffled && (codec.block & (codec.block - 1)) == 0) {
    encode_in_warps<Kind, kFeedback>
        <<<grid_for(codec.count, kWarpTile * (kThreads / kWarp)), kThreads>>>(
            values, residual, codec.count, tiling, out);
  } else if (tiling.values <= kTile) {
    encode_tiles<Kind, kFeedback><<<grid_for_tiles(tiling.tiles), kThreads>>>(
        values, residual, codec.count, tiling, out);
  } else {
    encode_large_blocks<Kind, kFeedback><<<grid_for(tiling.blocks * kWarp), kThreads>>>(
        values, residual, codec.count, tiling, out);
  }
}

/// Whether the codec makes code and rest of a value in one pass over the values.
bool passes_once(const OrreryCodec& codec) { return codec.codec < kTopK; }

/// Encodes; with feedback, adds the values left out before (`residual`) and replaces them.
template <bool kFeedback>
void run_single_pass(const OrreryCodec& codec, const float* values, float* residual, void* code) {
  switch (codec.codec) {
    case kNone:
      cudaMemcpyAsync(code, values, 4 * codec.count, cudaMemcpyDeviceToDevice);
      break;
    case kInt8:
      run_blocks<Int8, kFeedback>(codec, values, residual, code);
      break;
    case kInt4:
      run_blocks<Int4, kFeedback>(codec, values, residual, code);
      break;
    case kBf16:
      encode_half<Bf16, kFeedback><<<grid_for(codec.count, kHalfTile), kThreads>>>(
          values, residual, codec.count, static_cast<u16*>(code));
      break;
    default:
      encode_half<Fp16, kFeedback><<<grid_for(codec.count, kHalfTile), kThreads>>>(
          values, residual, codec.count, static_cast<u16*>(code));
  }
}

/// Runs the codecs that pass over the values several times, without feedback.
void run_passes(const OrreryCodec& codec, const float* values, float* basis, Scratch& scratch,
                void* code) {
  if (codec.codec == kTopK) return run_top_k(codec, values, scratch, code);
  const unsigned grid = grid_for(codec.count);
  float* const left = static_cast<float*>(code);
  project_rows<<<grid, kThreads>>>(codec, values, basis, left);
  orthonormalise_columns<<<1, kWarp>>>(codec, left);
  project_columns<<<grid, kThreads>>>(codec, values, left, basis);
  cudaMemcpyAsync(left + codec.rows * codec.rank, basis, 4 * codec.columns * codec.rank,
                  cudaMemcpyDeviceToDevice);
}

template <class Kind>
void run_decode_blocks(const OrreryCodec& codec, const void* code, float* values) {
  const Tiling tiling = tiling_for(codec, kDecodeTile);
  const auto kernel =
      codec.block % kVector == 0 ? decode_tiles<Kind, true> : decode_tiles<Kind, false>;
  kernel<<<grid_for(tiling.tiles, 1), kThreads>>>(static_cast<const u8*>(code), codec.count, tiling,
                                                  values);
}

void run_decode(const OrreryCodec& codec, const void* code, float* values) {
  const unsigned grid = grid_for(codec.count);
  const auto* const indices = static_cast<const u32*>(code);
  const auto* const left = static_cast<const float*>(code);
  switch (codec.codec) {
    case kNone:
      cudaMemcpyAsync(values, code, 4 * codec.count, cudaMemcpyDeviceToDevice);
      break;
    case kBf16:
      decode_half<Bf16><<<grid_for(codec.count, kDecodeTile), kThreads>>>(
          static_cast<const u16*>(code), codec.count, values);
      break;
    case kFp16:
      decode_half<Fp16><<<grid_for(codec.count, kDecodeTile), kThreads>>>(
          static_cast<const u16*>(code), codec.count, values);
      break;
    case kInt8:
      run_decode_blocks<Int8>(codec, code, values);
      break;
    case kInt4:
      run_decode_blocks<Int4>(codec, code, values);
      break;
    case kTopK:
      cudaMemsetAsync(values, 0, 4 * codec.count);
      scatter<<<grid_for(codec.kept), kThreads>>>(indices, left + codec.kept, codec.kept,
                                                  codec.count, values);
      break;
    default:
      multiply_factors<<<grid, kThreads>>>(codec, left, left + codec.rows * codec.rank, values);
  }
}

/// Encodes; with error feedback `residual` has the values left out before, then those left out now.
void run_encode(const OrreryCodec& codec, const float* values, float* residual, float* basis,
                Scratch& scratch, void* code) {
  if (passes_once(codec)) {
    return codec.feedback ? run_single_pass<true>(codec, values, residual, code)
                          : run_single_pass<false>(codec, values, residual, code);
  }
  if (!codec.feedback) return run_passes(codec, values, basis, scratch, code);
  const unsigned grid = grid_for(codec.count);
  add_values<<<grid, kThreads>>>(residual, values, codec.count);
  run_passes(codec, residual, basis, scratch, code);
  run_decode(codec, code, scratch.decoded.as<float>());
  keep_rest<<<grid, kThreads>>>(residual, scratch.decoded.as<float>(), codec.count);
}

cudaError_t finish() {
  const cudaError_t launched = cudaGetLastError();
  const cudaError_t done = cudaDeviceSynchronize();
  return launched != cudaSuccess ? launched : done;
}

/// Seconds of one call of `work`, the best of several after one to warm up.
template <class Work>
double best_time(Work work) {
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  float best = 1e30f;
  for (int i = 0; i < 8; ++i) {
    cudaEventRecord(begin);
    work();
    cudaEventRecord(end);
    cudaEventSynchronize(end);
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, begin, end);
    if (i > 0 && milliseconds < best) best = milliseconds;
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return best * 1e-3;
}

}  // namespace

int orrery_codec_encode(const OrreryCodec* codec, const float* values, float* residual,
                        float* basis, void* code) {
  const u64 size = 4 * codec->count, basis_size = 4 * codec->columns * codec->rank;
  if (codec->count == 0) return cudaSuccess;
  Buffer in(size), rest(size), factor(basis_size), out(codec->code_size);
  Scratch scratch(*codec);
  for (const Buffer* each : {&in, &rest, &factor, &out, &scratch.decoded, &scratch.equal}) {
    if (each->status != cudaSuccess) return each->status;
  }
  cudaMemcpy(in.as<float>(), values, size, cudaMemcpyHostToDevice);
  if (codec->feedback) cudaMemcpy(rest.as<float>(), residual, size, cudaMemcpyHostToDevice);
  if (basis_size > 0) cudaMemcpy(factor.as<float>(), basis, basis_size, cudaMemcpyHostToDevice);
  run_encode(*codec, in.as<float>(), rest.as<float>(), factor.as<float>(), scratch,
             out.as<void>());
  if (const cudaError_t status = finish(); status != cudaSuccess) return status;
  cudaMemcpy(code, out.as<void>(), codec->code_size, cudaMemcpyDeviceToHost);
  if (codec->feedback) cudaMemcpy(residual, rest.as<float>(), size, cudaMemcpyDeviceToHost);
  if (basis_size > 0) cudaMemcpy(basis, factor.as<float>(), basis_size, cudaMemcpyDeviceToHost);
  return cudaGetLastError();
}

int orrery_codec_decode(const OrreryCodec* codec, const void* code, float* values) {
  if (codec->count == 0) return cudaSuccess;
  Buffer in(codec->code_size), out(4 * codec->count);
  if (in.status != cudaSuccess) return in.status;
  if (out.status != cudaSuccess) return out.status;
  cudaMemcpy(in.as<void>(), code, codec->code_size, cudaMemcpyHostToDevice);
  run_decode(*codec, in.as<void>(), out.as<float>());
  if (const cudaError_t status = finish(); status != cudaSuccess) return status;
  cudaMemcpy(values, out.as<float>(), 4 * codec->count, cudaMemcpyDeviceToHost);
  return cudaGetLastError();
}

int orrery_codec_speed(const OrreryCodec* codec, OrreryCodecSpeed* speed) {
  const u64 size = 4 * codec->count;
  Buffer in(size), rest(size), factor(4 * codec->columns * codec->rank), out(codec->code_size);
  Scratch scratch(*codec);
  if (out.status != cudaSuccess) return out.status;
  cudaMemset(in.as<void>(), 0x3C, size);  // small values, none of them 0
  cudaMemset(rest.as<void>(), 0, size);
  cudaMemset(factor.as<void>(), 0x3C, 4 * codec->columns * codec->rank);
  const double bytes = static_cast<double>(size), code = static_cast<double>(codec->code_size);
  speed->copy = 2 * bytes / best_time([&] {
    cudaMemcpyAsync(rest.as<void>(), in.as<void>(), size, cudaMemcpyDeviceToDevice);
  });
  const double encode = best_time([&] {
    run_encode(*codec, in.as<float>(), rest.as<float>(), factor.as<float>(), scratch,
                      out.as<void>());
  });
  const double decode =
      best_time([&] { run_decode(*codec, out.as<void>(), scratch.decoded.as<float>()); });
  speed->encode = bytes / encode;
  speed->decode = bytes / decode;
  const double feedback = passes_once(*codec) ? 2 * bytes : 7 * bytes + code;
  speed->encode_moved = (bytes + code + (codec->feedback ? feedback : 0)) / encode;
  speed->decode_moved = (bytes + code) / decode;
  return finish();
}
