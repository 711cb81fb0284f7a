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
  for (u32 i = 0; i < kVector; ++i) {  // a constant count keeps the values in registers
    if (i < many) out[first + i] = values[i];
  }
}

/// Vectors that a thread reads before it writes the first: enough bytes under way to hide the
/// latency of device memory.
constexpr u32 kUnroll = 4;
constexpr u32 kStride = kVector * kThreads;  // values of a thread block's one vector each
constexpr u32 kDecodeTile = kUnroll * kStride;

struct Bf16 {
  static __device__ u16 code_of(float value) { return to_bf16(value); }
  static __device__ float value_of(u16 code) { return from_bf16(code); }
};

struct Fp16 {
  static __device__ u16 code_of(float value) { return to_fp16(value); }
  static __device__ float value_of(u16 code) { return from_fp16(code); }
};

constexpr u32 kHalfUnroll = 2;  // fewer: encode_half reads two arrays and writes two
constexpr u32 kHalfTile = kHalfUnroll * kStride;

template <class Half, bool kFeedback>
__global__ void encode_half(const float* __restrict__ values, float* __restrict__ residual,
                            u64 count, u16* __restrict__ code) {
  for (u64 tile = u64{blockIdx.x} * kHalfTile; tile < count; tile += u64{gridDim.x} * kHalfTile) {
    float wanted[kHalfUnroll][kVector];
    for (u32 v = 0; v < kHalfUnroll; ++v) {
      const u64 first = tile + kStride * v + kVector * threadIdx.x;
      load_wanted<kFeedback>(values, residual, first, first < count ? count - first : 0, wanted[v]);
    }
    for (u32 v = 0; v < kHalfUnroll; ++v) {
      const u64 first = tile + kStride * v + kVector * threadIdx.x;
      if (first >= count) break;
      float rest[kVector];
      u16 half[kVector];
      for (u32 i = 0; i < kVector; ++i) {
        half[i] = Half::code_of(wanted[v][i]);
        rest[i] = residual_of(wanted[v][i], Half::value_of(half[i]));
      }
      if (count - first >= kVector) {
        *reinterpret_cast<ushort4*>(code + first) =
            make_ushort4(half[0], half[1], half[2], half[3]);
      } else {
        for (u32 i = 0; i < kVector; ++i) {
          if (i < count - first) code[first + i] = half[i];
        }
      }
      if (kFeedback) store_values(rest, first, count - first, residual);
    }
  }
}

template <class Half>
__global__ void decode_half(const u16* __restrict__ code, u64 count, float* __restrict__ values) {
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
      for (u32 i = 0; i < kVector; ++i) decoded[i] = Half::value_of(half[i]);
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
  /// Returns code k of a word as a float: the byte code + 128 as the low bits of 2^23.
  static __device__ float code_value(u32 packed, u32 k) {
    return float_of(__byte_perm(packed ^ 0x80808080u, 0x4B000000u, 0x7440u | k)) -
           8388736.0f;
  }
};

struct Int4 {
  using Scale = u16;
  using Codes = u16;
  static constexpr int kLimit = 7;
  static constexpr u32 kBits = 4;
  static __device__ Scale scale_of(u32 largest) { return short_block_scale(largest, 7.0f); }
  static __device__ float value_of(Scale scale) { return from_bf16(scale); }
  /// Returns code k of a word as a float: the four bits of code + 8 as the low bits of 2^23.
  static __device__ float code_value(u32 packed, u32 k) {
    return float_of((packed >> (kBits * k) & 0xFu) ^ 0x4B000008u) - 8388616.0f;
  }
};

/// Returns kVector codes as one word, the first in the lowest bits. With half the range added, the
/// codes are not negative and add up without masks; flipping the highest bit of each subtracts it.
template <class Kind>
__device__ typename Kind::Codes pack_codes(const int (&codes)[kVector]) {
  u32 packed = 0, halves = 0;
  for (u32 i = 0; i < kVector; ++i) {
    packed += static_cast<u32>(codes[i]) << (Kind::kBits * i);
    halves += (1u << (Kind::kBits - 1)) << (Kind::kBits * i);
  }
  return static_cast<typename Kind::Codes>((packed + halves) ^ halves);
}

/// Returns the bytes of the codes of so many values.
template <class Kind>
__host__ __device__ u64 bytes_of(u64 values) {
  return (values * Kind::kBits + 7) / 8;
}

/// Writes the codes of up to kVector values, byte by byte.
template <class Kind>
__device__ void store_bytes(typename Kind::Codes packed, u64 many, u8* out) {
  for (u32 i = 0; i < sizeof packed; ++i) {
    if (i < bytes_of<Kind>(many)) out[i] = static_cast<u8>(packed >> (8 * i));
  }
}

/// Division of a bucket among thread blocks: tiles of whole codec blocks and whole vectors.
struct Tiling {
  u64 block;   // values of a codec block
  u64 blocks;  // codec blocks in all
  u64 values;  // values of a tile
  u64 tiles;
  u32 tile_blocks;  // codec blocks of a tile
  u32 lanes;        // threads that share a codec block, a power of two
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
  out.tile_blocks = static_cast<u32>(out.values / out.block);
  out.lanes = 1;
  while (out.lanes < kWarp && 16 * out.lanes <= codec.block) out.lanes *= 2;
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

/// Scale of a block as it is stored and used.
template <class Kind>
struct BlockScale {
  typename Kind::Scale stored;
  ScaleOfBlock used;
};

template <class Kind>
__device__ BlockScale<Kind> scale_block(u32 largest) {
  const typename Kind::Scale stored = Kind::scale_of(largest);
  const float value = Kind::value_of(stored);
  return {stored, {value, block_factor(value)}};
}

/// Replaces the largest magnitudes of each lane's vectors by those of the vectors' blocks.
__device__ void spread_largest(u32 block, u32 (&largest)[kWarpVectors]) {
  if (block == kMostShuffled) {
    largest[0] = largest[1] = max(largest[0], largest[1]);
    largest[2] = largest[3] = max(largest[2], largest[3]);
  }
  for (u32 half = min(block / kVector, u32{kWarp}) / 2; half > 0; half /= 2) {
    for (u32& each : largest) each = max(each, __shfl_xor_sync(kAll, each, half));
  }
}

/// Fills the scales of a lane's vectors. Blocks of at least kWarpVectors lanes share the divisions:
/// each of four neighbours computes the scale of one of the four vectors.
template <class Kind>
__device__ void scale_vectors(u32 lane, u32 block, const u32 (&largest)[kWarpVectors],
                              BlockScale<Kind> (&scales)[kWarpVectors]) {
  if (block < kVector * kWarpVectors) {
    for (u32 v = 0; v < kWarpVectors; ++v) scales[v] = scale_block<Kind>(largest[v]);
    return;
  }
  const u32 turn = lane % kWarpVectors;
  const u32 low = turn & 1 ? largest[1] : largest[0], high = turn & 1 ? largest[3] : largest[2];
  const BlockScale<Kind> own = scale_block<Kind>(turn & 2 ? high : low);
  for (u32 v = 0; v < kWarpVectors; ++v) {
    const u32 from = lane - turn + v;
    scales[v].used.factor = __shfl_sync(kAll, own.used.factor, from);
    scales[v].used.value = __shfl_sync(kAll, own.used.value, from);
    scales[v].stored = __shfl_sync(kAll, own.stored, from);
  }
}

/// Codes the tile of a warp that begins at value `first`. kFull: no value is beyond the end.
template <class Kind, bool kFeedback, bool kFull>
__device__ void encode_warp_tile(const float* values, float* residual, u64 first, u64 count,
                                 u32 block, typename Kind::Scale* scales_out, u8* codes) {
  const u32 lane = threadIdx.x % kWarp, shift = 31 - __clz(block);
  const u64 left = kFull ? kWarpTile : count - first;
  float wanted[kWarpVectors][kVector];
  u32 largest[kWarpVectors];
  BlockScale<Kind> scales[kWarpVectors];
#pragma unroll
  for (u32 v = 0; v < kWarpVectors; ++v) {
    const u32 i = (kWarp * v + lane) * kVector;
    const u64 many = kFull ? kVector : (i < left ? left - i : 0);
    load_wanted<kFeedback>(values, residual, first + i, many, wanted[v]);
  }
#pragma unroll
  for (u32 v = 0; v < kWarpVectors; ++v) {
    largest[v] = 0;
    for (float value : wanted[v]) largest[v] = max(largest[v], magnitude(value));
  }
  spread_largest(block, largest);
  scale_vectors<Kind>(lane, block, largest, scales);
#pragma unroll
  for (u32 v = 0; v < kWarpVectors; ++v) {
    const u32 i = (kWarp * v + lane) * kVector;
    if (!kFull && i >= left) break;
    if ((i & (block - 1)) == 0) scales_out[(first + i) >> shift] = scales[v].stored;
    encode_vector<Kind, kFeedback>(wanted[v], kFull ? kVector : left - i, scales[v].used,
                                   scales[v].used, kVector, codes + bytes_of<Kind>(first + i),
                                   kFeedback ? residual + first + i : nullptr);
  }
}

/// Codes blocks of a power of two, at most kMostShuffled: the largest magnitude goes from lane to
/// lane.
template <class Kind, bool kFeedback>
__global__ void encode_in_warps(const float* __restrict__ values, float* __restrict__ residual,
                                u64 count, Tiling tiling, u8* __restrict__ code) {
  auto* const scales = reinterpret_cast<typename Kind::Scale*>(code);
  u8* const codes = code + sizeof(typename Kind::Scale) * tiling.blocks;
  const u32 block = static_cast<u32>(tiling.block);
  for (u64 first = thread_index() / kWarp * kWarpTile; first < count;
       first += thread_count() / kWarp * kWarpTile) {
    if (count - first >= kWarpTile) {
      encode_warp_tile<Kind, kFeedback, true>(values, residual, first, count, block, scales, codes);
    } else {
      encode_warp_tile<Kind, kFeedback, false>(values, residual, first, count, block, scales,
                                               codes);
    }
  }
}

/// Stores the scales of a tile's blocks; groups of `lanes` threads look for the largest magnitude.
template <class Kind>
__device__ void scale_tile(const float* held, u32 many, const Tiling& tiling, u64 tile,
                           ScaleOfBlock* scales, u8* code) {
  const u32 block = static_cast<u32>(tiling.block), lanes = tiling.lanes;
  const u32 shift = 31 - __clz(lanes), lane = threadIdx.x & (lanes - 1);
  const u32 group = threadIdx.x >> shift, groups = kThreads >> shift;
  const u32 blocks = block_of(many - 1, tiling) + 1;
  for (u32 start = 0; start < blocks; start += groups) {
    const u32 at = start + group, end = (at + 1) * block < many ? (at + 1) * block : many;
    u32 largest = 0;
#pragma unroll 4
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
    reinterpret_cast<typename Kind::Scale*>(code)[tile * tiling.tile_blocks + at] = scale;
  }
}

constexpr u32 kTileVectors = kTile / kStride;

/// Reads the values of a tile to be sent; none if the tile is beyond the last.
template <bool kFeedback>
__device__ void load_tile(const float* values, const float* residual, u64 count,
                          const Tiling& tiling, u64 tile,
                          float (&wanted)[kTileVectors][kVector]) {
  if (tile >= tiling.tiles) return;
  const u64 first = tile * tiling.values;
  const u32 many = static_cast<u32>(count - first < tiling.values ? count - first : tiling.values);
#pragma unroll
  for (u32 v = 0; v < kTileVectors; ++v) {
    const u32 i = kStride * v + kVector * threadIdx.x;
    load_wanted<kFeedback>(values, residual, first + i, i < many ? many - i : 0, wanted[v]);
  }
}

/// Codes the `many` values of a tile in shared memory. kFull: `many` is a multiple of kVector.
template <class Kind, bool kFeedback, bool kFull>
__device__ void encode_held(const float* held, u32 many, const Tiling& tiling,
                            const ScaleOfBlock* scales, u8* codes, float* residual) {
#pragma unroll
  for (u32 v = 0; v < kTileVectors; ++v) {
    const u32 i = kStride * v + kVector * threadIdx.x;
    if (i >= many) break;
    const float4 found = *reinterpret_cast<const float4*>(held + i);
    const float wanted[kVector] = {found.x, found.y, found.z, found.w};
    const u32 at = block_of(i, tiling), own = (at + 1) * static_cast<u32>(tiling.block) - i;
    encode_vector<Kind, kFeedback>(wanted, kFull ? kVector : many - i, scales[at], scales[at + 1],
                                   own, codes + i / kVector * sizeof(typename Kind::Codes),
                                   kFeedback ? residual + i : nullptr);
  }
}

/// Codes tiles that fit into shared memory, so that values are read once; the next tile is read
/// while this one is coded.
template <class Kind, bool kFeedback>
__global__ void encode_tiles(const float* __restrict__ values, float* __restrict__ residual,
                             u64 count, Tiling tiling, u8* __restrict__ code) {
  __shared__ float held[kTile];
  __shared__ ScaleOfBlock scales[kTile / kLeastBlock + 1];  // the last is never that of a value
  u8* const codes = code + sizeof(typename Kind::Scale) * tiling.blocks;
  float wanted[kTileVectors][kVector];
  load_tile<kFeedback>(values, residual, count, tiling, blockIdx.x, wanted);
  for (u64 tile = blockIdx.x; tile < tiling.tiles; tile += gridDim.x) {
    const u64 first = tile * tiling.values;
    const u32 many =
        static_cast<u32>(count - first < tiling.values ? count - first : tiling.values);
#pragma unroll
    for (u32 v = 0; v < kTileVectors; ++v) {
      *reinterpret_cast<float4*>(held + kStride * v + kVector * threadIdx.x) =
          make_float4(wanted[v][0], wanted[v][1], wanted[v][2], wanted[v][3]);
    }
    __syncthreads();
    load_tile<kFeedback>(values, residual, count, tiling, tile + gridDim.x, wanted);
    scale_tile<Kind>(held, many, tiling, tile, scales, code);
    __syncthreads();
    u8* const tile_codes = codes + bytes_of<Kind>(first);
    float* const rest = kFeedback ? residual + first : nullptr;
    if (many % kVector == 0) {
      encode_held<Kind, kFeedback, true>(held, many, tiling, scales, tile_codes, rest);
    } else {
      encode_held<Kind, kFeedback, false>(held, many, tiling, scales, tile_codes, rest);
    }
    __syncthreads();
  }
}

/// Returns the thread blocks for encode_tiles: several tiles each, unless that leaves
/// multiprocessors without work.
unsigned grid_for_tiles(u64 tiles) {
  constexpr u64 kEnough = 2048, kMost = 8;
  const u64 each = tiles / kEnough;
  return grid_for(tiles, each < 1 ? 1 : (each > kMost ? kMost : each));
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

/// Returns the codes of the vector at value `i` of a tile with `many` values; 0 beyond its end.
template <class Kind>
__device__ typename Kind::Codes load_codes(const u8* codes, u32 i, u32 many) {
  using Codes = typename Kind::Codes;
  const u8* const from = codes + i / kVector * sizeof(Codes);
  if (i + kVector <= many) return *reinterpret_cast<const Codes*>(from);
  u32 packed = 0;
  for (u32 k = 0; k < sizeof(Codes); ++k) {
    if (i < many && k < bytes_of<Kind>(many - i)) packed |= u32{from[k]} << (8 * k);
  }
  return static_cast<Codes>(packed);
}

/// Decodes the `many` values of a tile. First the codes and scales of several vectors are read,
/// then all are decoded, so that one wait serves all. kWhole: no vector lies in two blocks; kFull:
/// `many` is a multiple of kVector.
template <class Kind, bool kWhole, bool kFull>
__device__ void decode_tile(const typename Kind::Scale* scales, const u8* codes, u32 many,
                            const Tiling& tiling, float* out) {
  const u32 block = static_cast<u32>(tiling.block);
  for (u32 base = kVector * threadIdx.x; base < many; base += kDecodeTile) {
    typename Kind::Codes packed[kUnroll];
    typename Kind::Scale own[kUnroll], next[kUnroll];
    u32 left[kUnroll];  // values of the vector until the end of its first block
#pragma unroll
    for (u32 v = 0; v < kUnroll; ++v) {
      // Beyond the end the last vector is read once more, so that no branch is needed.
      const u32 i = kFull ? min(base + kStride * v, many - kVector) : base + kStride * v;
      packed[v] = load_codes<Kind>(codes, i, kFull ? i + kVector : many);
      const u32 at = block_of(kFull ? i : min(i, many - 1), tiling);
      own[v] = scales[at];
      left[v] = (at + 1) * block - i;
      if (!kWhole) next[v] = scales[left[v] < min(kVector, many - i) ? at + 1 : at];
    }
#pragma unroll
    for (u32 v = 0; v < kUnroll; ++v) {
      const u32 i = base + kStride * v;
      if (i >= many) break;
      const float scale = Kind::value_of(own[v]);
      const float after = kWhole ? scale : Kind::value_of(next[v]);
      float decoded[kVector];
      for (u32 k = 0; k < kVector; ++k) {
        decoded[k] =
            Kind::code_value(packed[v], k) * (kWhole || k < left[v] ? scale : after);
      }
      store_values(decoded, i, kFull ? kVector : many - i, out);
    }
  }
}

template <class Kind, bool kWhole>
__global__ void decode_tiles(const u8* __restrict__ code, u64 count, Tiling tiling,
                             float* __restrict__ values) {
  using Scale = typename Kind::Scale;
  for (u64 tile = blockIdx.x; tile < tiling.tiles; tile += gridDim.x) {
    const u64 first = tile * tiling.values;
    const auto* const scales = reinterpret_cast<const Scale*>(code) + tile * tiling.tile_blocks;
    const u8* const codes = code + sizeof(Scale) * tiling.blocks + bytes_of<Kind>(first);
    const u32 many =
        static_cast<u32>(count - first < tiling.values ? count - first : tiling.values);
    if (many % kVector == 0) {
      decode_tile<Kind, kWhole, true>(scales, codes, many, tiling, values + first);
    } else {
      decode_tile<Kind, kWhole, false>(scales, codes, many, tiling, values + first);
    }
  }
}

}  // namespace
