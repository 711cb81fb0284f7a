// Kernels of the codecs that pass over the values once: halves (bf16, fp16), blocks (int8, int4).
// Part of codec_kernels.cu, which includes it once; the arithmetic is live/codec/arithmetic.hpp. A
// code has the scales of all blocks first, then the codes of all values without a gap. All pointers
// are device memory from cudaMalloc: vectors of 16 bytes are aligned. For example, int4 codes of 20
// values in blocks of 10 are two scales of 2 bytes and 10 bytes of codes.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "live/codec/arithmetic.hpp"
#include "live/cuda/orrery_cuda.h"

namespace {

using namespace orrery::live::arithmetic;
using u8 = unsigned char;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr u32 kAll = 0xFFFFFFFFu;

enum Kind : u32 { kNone, kBf16, kFp16, kInt8, kInt4, kTopK, kPowerSgd };

__device__ u64 thread_index() { return u64{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ u64 thread_count() { return u64{gridDim.x} * blockDim.x; }

unsigned grid_for(u64 items, u64 per_block = kThreads) {
  const u64 blocks = (items + per_block - 1) / per_block;
  return static_cast<unsigned>(blocks < 1 ? 1 : (blocks > 65535 ? 65535 : blocks));
}

/// Values that a thread reads and writes at once: 16 bytes, and so the bandwidth of device memory.
constexpr u32 kVector = 4;

/// Reads up to `many` values to be sent; with error feedback those left out before are added.
template <bool kFeedback>
__device__ void load_wanted(const float* values, const float* residual, u64 first, u64 many,
                            float (&wanted)[kVector]) {
  if (many >= kVector) {
    const float4 found = *reinterpret_cast<const float4*>(values + first);
    wanted[0] = found.x, wanted[1] = found.y, wanted[2] = found.z, wanted[3] = found.w;
    if (kFeedback) {
      const float4 rest = *reinterpret_cast<const float4*>(residual + first);
      wanted[0] += rest.x, wanted[1] += rest.y, wanted[2] += rest.z, wanted[3] += rest.w;
    }
    return;
  }
  for (u32 i = 0; i < kVector; ++i) {
    wanted[i] = i < many ? values[first + i] : 0.0f;
    if (kFeedback && i < many) wanted[i] += residual[first + i];
  }
}

/// Writes the first `many` of these values.
__device__ void store_values(const float (&values)[kVector], u64 first, u64 many, float* out) {
  if (many >= kVector) {
    *reinterpret_cast<float4*>(out + first) =
        make_float4(values[0], values[1], values[2], values[3]);
    return;
  }
  for (u32 i = 0; i < many; ++i) out[first + i] = values[i];
}

template <bool kFeedback>
__global__ void encode_half(const float* __restrict__ values, float* __restrict__ residual,
                            u64 count, bool brain, u16* __restrict__ code) {
  for (u64 first = kVector * thread_index(); first < count; first += kVector * thread_count()) {
    float wanted[kVector], rest[kVector];
    u16 half[kVector];
    load_wanted<kFeedback>(values, residual, first, count - first, wanted);
    for (u32 i = 0; i < kVector; ++i) {
      half[i] = brain ? to_bf16(wanted[i]) : to_fp16(wanted[i]);
      rest[i] = residual_of(wanted[i], brain ? from_bf16(half[i]) : from_fp16(half[i]));
    }
    if (count - first >= kVector) {
      *reinterpret_cast<ushort4*>(code + first) = make_ushort4(half[0], half[1], half[2], half[3]);
    } else {
      for (u64 i = 0; i < count - first; ++i) code[first + i] = half[i];
    }
    if (kFeedback) store_values(rest, first, count - first, residual);
  }
}

/// Vectors that a thread reads before it writes the first: enough bytes under way to hide the
/// latency of device memory.
constexpr u32 kUnroll = 4;
constexpr u32 kStride = kVector * kThreads;  // values of a thread block's one vector each
constexpr u32 kDecodeTile = kUnroll * kStride;

__global__ void decode_half(const u16* __restrict__ code, u64 count, bool brain,
                            float* __restrict__ values) {
  for (u64 tile = u64{blockIdx.x} * kDecodeTile; tile < count;
       tile += u64{gridDim.x} * kDecodeTile) {
    ushort4 found[kUnroll];
    for (u32 v = 0; v < kUnroll; ++v) {
      const u64 first = tile + kStride * v + kVector * threadIdx.x;
      found[v] = make_ushort4(0, 0, 0, 0);
      if (first + kVector <= count) {
        found[v] = *reinterpret_cast<const ushort4*>(code + first);
      } else if (first < count) {
        found[v].x = code[first];
        if (first + 1 < count) found[v].y = code[first + 1];
        if (first + 2 < count) found[v].z = code[first + 2];
      }
    }
    for (u32 v = 0; v < kUnroll; ++v) {
      const u64 first = tile + kStride * v + kVector * threadIdx.x;
      if (first >= count) break;
      const u16 half[kVector] = {found[v].x, found[v].y, found[v].z, found[v].w};
      float decoded[kVector];
      for (u32 i = 0; i < kVector; ++i) {
        decoded[i] = brain ? from_bf16(half[i]) : from_fp16(half[i]);
      }
      store_values(decoded, first, count - first, values);
    }
  }
}

// ---- blocks: scales first, then the codes without a gap -------------------------------------

struct Int8 {
  using Scale = float;
  using Codes = u32;  ///< word for the codes of kVector values
  static constexpr int kLimit = 127;
  static constexpr u32 kBits = 8;
  static __device__ Scale scale_of(u32 largest) { return block_scale(largest, 127.0f); }
  static __device__ float value_of(Scale scale) { return scale; }
};

struct Int4 {
  using Scale = u16;
  using Codes = u16;
  static constexpr int kLimit = 7;
  static constexpr u32 kBits = 4;
  static __device__ Scale scale_of(u32 largest) { return short_block_scale(largest, 7.0f); }
  static __device__ float value_of(Scale scale) { return from_bf16(scale); }
};

/// Returns kVector codes as one word, the first in the lowest bits.
template <class Kind>
__device__ typename Kind::Codes pack_codes(const int (&codes)[kVector]) {
  u32 packed = 0;
  for (u32 i = 0; i < kVector; ++i) {
    packed |= (static_cast<u32>(codes[i]) & ((1u << Kind::kBits) - 1)) << (Kind::kBits * i);
  }
  return static_cast<typename Kind::Codes>(packed);
}

/// Returns the bytes of the codes of so many values.
template <class Kind>
__host__ __device__ u64 bytes_of(u64 values) {
  return (values * Kind::kBits + 7) / 8;
}

/// Writes the codes of up to kVector values, byte by byte.
template <class Kind>
__device__ void store_bytes(typename Kind::Codes packed, u64 many, u8* out) {
  for (u32 i = 0; i < bytes_of<Kind>(many < kVector ? many : kVector); ++i) {
    out[i] = static_cast<u8>(packed >> (8 * i));
  }
}

/// Division of a bucket among thread blocks: tiles of whole codec blocks and whole vectors.
struct Tiling {
  u64 block;   // values of a codec block
  u64 blocks;  // codec blocks in all
  u64 values;  // values of a tile
  u64 tiles;
  u32 lanes;       // threads that share a codec block, a power of two
  u32 reciprocal;  // 2^32 / block, rounded up
};

constexpr u32 kTile = 2 * kStride;  // values of a tile in shared memory
constexpr u32 kLeastBlock = 8;  // values of the smallest codec block that a rule may ask for

/// Tiles of at most `largest` values, or of one or two codec blocks if these are larger.
Tiling tiling_for(const OrreryCodec& codec, u64 largest) {
  const u64 whole = codec.block % kVector == 0 ? codec.block : 2 * codec.block;  // blocks are even
  Tiling out{};
  out.block = codec.block;
  out.blocks = (codec.count + codec.block - 1) / codec.block;
  out.values = whole < largest ? largest / whole * whole : whole;
  out.reciprocal = static_cast<u32>(((u64{1} << 32) + codec.block - 1) / codec.block);
  out.tiles = (codec.count + out.values - 1) / out.values;
  out.lanes = 1;
  while (out.lanes < kWarp && 8 * out.lanes <= codec.block) out.lanes *= 2;
  return out;
}

struct ScaleOfBlock {
  float value, factor;
};

/// Returns the block of value `i` of a tile. Exact: i x block is below 2^32 in tiles of several
/// blocks, and larger tiles have at most two.
__device__ u32 block_of(u32 i, const Tiling& tiling) {
  if (tiling.values > 2 * tiling.block) return __umulhi(i, tiling.reciprocal);
  return i >= tiling.block ? 1 : 0;
}

/// Quantises up to kVector values, of which the first `own` are in the block of `scale` and the
/// others in that of `next`. Stores the codes and, with feedback, the rest.
template <class Kind, bool kFeedback>
__device__ void encode_vector(const float (&wanted)[kVector], u64 many, ScaleOfBlock scale,
                              ScaleOfBlock next, u32 own, u8* out, float* residual) {
  int found[kVector] = {};
  float rest[kVector];
  for (u32 k = 0; k < kVector; ++k) {
    const ScaleOfBlock used = k < own ? scale : next;
    const int code = quantise(wanted[k], used.factor, Kind::kLimit);
    rest[k] = residual_of(wanted[k], dequantise(code, used.value));
    found[k] = k < many ? code : 0;
  }
  const typename Kind::Codes packed = pack_codes<Kind>(found);
  if (many >= kVector) {
    *reinterpret_cast<typename Kind::Codes*>(out) = packed;
  } else {
    store_bytes<Kind>(packed, many, out);
  }
  if (kFeedback) store_values(rest, 0, many, residual);
}

constexpr u32 kWarpVectors = 4;
constexpr u32 kWarpTile = kWarpVectors * kVector * kWarp;  // values of a warp at a time
constexpr u32 kMostShuffled = 2 * kVector * kWarp;         // values of the largest such block

/// Codes blocks of a power of two, at most kMostShuffled: the largest magnitude goes from lane to
/// lane.
template <class Kind, bool kFeedback>
__global__ void encode_in_warps(const float* __restrict__ values, float* __restrict__ residual,
                                u64 count, Tiling tiling, u8* __restrict__ code) {
  const u32 lane = threadIdx.x % kWarp, block = static_cast<u32>(tiling.block);
  const u32 shift = 31 - __clz(block);
  u8* const codes = code + sizeof(typename Kind::Scale) * tiling.blocks;
  for (u64 first = thread_index() / kWarp * kWarpTile; first < count;
       first += thread_count() / kWarp * kWarpTile) {
    float wanted[kWarpVectors][kVector];
    u32 largest[kWarpVectors];
    for (u32 v = 0; v < kWarpVectors; ++v) {
      const u64 at = first + (kWarp * v + lane) * kVector;
      load_wanted<kFeedback>(values, residual, at, at < count ? count - at : 0, wanted[v]);
    }
    for (u32 v = 0; v < kWarpVectors; ++v) {
      largest[v] = 0;
      for (float value : wanted[v]) largest[v] = max(largest[v], magnitude(value));
    }
    if (block == kMostShuffled) {
      largest[0] = largest[1] = max(largest[0], largest[1]);
      largest[2] = largest[3] = max(largest[2], largest[3]);
    }
    for (u32 half = min(block / kVector, u32{kWarp}) / 2; half > 0; half /= 2) {
      for (u32& each : largest) each = max(each, __shfl_xor_sync(kAll, each, half));
    }
    for (u32 v = 0; v < kWarpVectors; ++v) {
      const u64 at = first + (kWarp * v + lane) * kVector;
      if (at >= count) break;
      const typename Kind::Scale stored = Kind::scale_of(largest[v]);
      const float value = Kind::value_of(stored);
      const ScaleOfBlock scale{value, block_factor(value)};
      if ((at & (block - 1)) == 0) {
        reinterpret_cast<typename Kind::Scale*>(code)[at >> shift] = stored;
      }
      encode_vector<Kind, kFeedback>(wanted[v], count - at, scale, scale, kVector,
                                     codes + bytes_of<Kind>(at),
                                     kFeedback ? residual + at : nullptr);
    }
  }
}

/// Stores the scales of a tile's blocks; groups of `lanes` threads look for the largest magnitude.
template <class Kind>
__device__ void scale_tile(const float* held, u32 many, const Tiling& tiling, u64 tile,
                           ScaleOfBlock* scales, u8* code) {
  const u32 block = static_cast<u32>(tiling.block), lanes = tiling.lanes;
  const u32 lane = threadIdx.x % lanes, group = threadIdx.x / lanes, groups = kThreads / lanes;
  const u32 blocks = (many + block - 1) / block;
  for (u32 start = 0; start < blocks; start += groups) {
    const u32 at = start + group, end = (at + 1) * block < many ? (at + 1) * block : many;
    u32 largest = 0;
    for (u32 i = at * block + lane; i < end; i += lanes) {
      const u32 size = magnitude(held[i]);
      largest = size > largest ? size : largest;
    }
    for (u32 half = lanes / 2; half > 0; half /= 2) {
      const u32 other = __shfl_xor_sync(kAll, largest, half);
      largest = other > largest ? other : largest;
    }
    if (lane != 0 || at >= blocks) continue;
    const typename Kind::Scale scale = Kind::scale_of(largest);
    scales[at] = {Kind::value_of(scale), block_factor(Kind::value_of(scale))};
    reinterpret_cast<typename Kind::Scale*>(code)[tile * (tiling.values / block) + at] = scale;
  }
}

/// Codes tiles that fit into shared memory, so that values are read once.
template <class Kind, bool kFeedback>
__global__ void encode_tiles(const float* __restrict__ values, float* __restrict__ residual,
                             u64 count, Tiling tiling, u8* __restrict__ code) {
  __shared__ float held[kTile];
  __shared__ ScaleOfBlock scales[kTile / kLeastBlock + 1];  // the last is never that of a value
  const u32 block = static_cast<u32>(tiling.block);
  u8* const codes = code + sizeof(typename Kind::Scale) * tiling.blocks;
  for (u64 tile = blockIdx.x; tile < tiling.tiles; tile += gridDim.x) {
    const u64 first = tile * tiling.values;
    const u32 many =
        static_cast<u32>(count - first < tiling.values ? count - first : tiling.values);
    float wanted[kTile / kStride][kVector];
    for (u32 v = 0; v < kTile / kStride; ++v) {
      const u32 i = kStride * v + kVector * threadIdx.x;
      load_wanted<kFeedback>(values, residual, first + i, i < many ? many - i : 0, wanted[v]);
    }
    for (u32 v = 0; v < kTile / kStride; ++v) {
      *reinterpret_cast<float4*>(held + kStride * v + kVector * threadIdx.x) =
          make_float4(wanted[v][0], wanted[v][1], wanted[v][2], wanted[v][3]);
    }
    __syncthreads();
    scale_tile<Kind>(held, many, tiling, tile, scales, code);
    __syncthreads();
    for (u32 v = 0; v < kTile / kStride; ++v) {
      const u32 i = kStride * v + kVector * threadIdx.x;
      if (i >= many) break;
      const u32 at = block_of(i, tiling), own = (at + 1) * block - i;
      encode_vector<Kind, kFeedback>(wanted[v], many - i, scales[at], scales[at + 1], own,
                                     codes + bytes_of<Kind>(first + i),
                                     kFeedback ? residual + first + i : nullptr);
    }
    __syncthreads();
  }
}

/// Codes blocks that are larger than a tile: one warp a block, which reads the values twice.
template <class Kind, bool kFeedback>
__global__ void encode_large_blocks(const float* __restrict__ values, float* __restrict__ residual,
                                    u64 count, Tiling tiling, u8* __restrict__ code) {
  const u32 lane = threadIdx.x % kWarp;
  u8* const codes = code + sizeof(typename Kind::Scale) * tiling.blocks;
  for (u64 at = thread_index() / kWarp; at < tiling.blocks; at += thread_count() / kWarp) {
    const u64 first = at * tiling.block;
    const u64 end = count - first < tiling.block ? count : first + tiling.block;
    u32 largest = 0;
    for (u64 i = first + lane; i < end; i += kWarp) {
      const float wanted = kFeedback ? residual[i] + values[i] : values[i];
      largest = magnitude(wanted) > largest ? magnitude(wanted) : largest;
    }
    for (int half = kWarp / 2; half > 0; half /= 2) {
      const u32 other = __shfl_xor_sync(kAll, largest, half);
      largest = other > largest ? other : largest;
    }
    const typename Kind::Scale stored = Kind::scale_of(largest);
    if (lane == 0) reinterpret_cast<typename Kind::Scale*>(code)[at] = stored;
    const float scale = Kind::value_of(stored), factor = block_factor(scale);
    for (u64 i = first + 2 * lane; i < end; i += 2 * kWarp) {
      int found[kVector] = {};
      for (u64 k = 0; k < 2 && i + k < end; ++k) {
        const float wanted = kFeedback ? residual[i + k] + values[i + k] : values[i + k];
        found[k] = quantise(wanted, factor, Kind::kLimit);
        if (kFeedback) residual[i + k] = residual_of(wanted, dequantise(found[k], scale));
      }
      store_bytes<Kind>(pack_codes<Kind>(found), end - i < 2 ? end - i : 2,
                        codes + bytes_of<Kind>(i));
    }
  }
}

/// Codes of one vector, with the scales of its first and, if that ends in the vector, second block.
struct CodedVector {
  u32 packed, own;
  float scale, next;
};

template <class Kind>
__device__ CodedVector load_codes(const typename Kind::Scale* scales, const u8* codes, u32 i,
                                  u32 many, const Tiling& tiling) {
  CodedVector out{0, 0, 0, 0};
  if (many - i >= kVector) {
    out.packed = *reinterpret_cast<const typename Kind::Codes*>(codes);
  } else {
    for (u32 k = 0; k < bytes_of<Kind>(many - i); ++k) out.packed |= u32{codes[k]} << (8 * k);
  }
  const u32 at = block_of(i, tiling);
  out.own = (at + 1) * static_cast<u32>(tiling.block) - i;
  out.scale = out.next = Kind::value_of(scales[at]);
  if (out.own < kVector && out.own < many - i) out.next = Kind::value_of(scales[at + 1]);
  return out;
}

template <class Kind>
__global__ void decode_tiles(const u8* __restrict__ code, u64 count, Tiling tiling,
                             float* __restrict__ values) {
  const u8* const codes = code + sizeof(typename Kind::Scale) * tiling.blocks;
  for (u64 tile = blockIdx.x; tile < tiling.tiles; tile += gridDim.x) {
    const u64 first = tile * tiling.values;
    const auto* const scales = reinterpret_cast<const typename Kind::Scale*>(code) +
                               tile * (tiling.values / tiling.block);
    const u32 many =
        static_cast<u32>(count - first < tiling.values ? count - first : tiling.values);
    for (u32 base = kVector * threadIdx.x; base < many; base += kDecodeTile) {
      CodedVector coded[kUnroll];
      for (u32 v = 0; v < kUnroll; ++v) {
        const u32 i = base + kStride * v;
        if (i >= many) break;
        coded[v] = load_codes<Kind>(scales, codes + bytes_of<Kind>(first + i), i, many, tiling);
      }
      for (u32 v = 0; v < kUnroll; ++v) {
        const u32 i = base + kStride * v;
        if (i >= many) break;
        float decoded[kVector];
        for (u32 k = 0; k < kVector; ++k) {
          // The code's sign in the highest bit, and back.
          const u32 shifted = coded[v].packed << (32 - Kind::kBits * (k + 1));
          decoded[k] = dequantise(static_cast<int>(shifted) >> (32 - Kind::kBits),
                                  k < coded[v].own ? coded[v].scale : coded[v].next);
        }
        store_values(decoded, first + i, many - i, values);
      }
    }
  }
}

}  // namespace
