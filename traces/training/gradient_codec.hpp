// Which code a gradient travels in, and what that costs: the vocabulary that policies, both worlds
// and the codecs themselves (live/codec) share, so that a policy's bytes are the wire's bytes.
// Pure functions, thread-safe. Counts are fp32 values, sizes bytes, times seconds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// `none` is fp32 as it is.
enum class Codec : std::uint8_t { none, bf16, fp16, int8, int4, top_k, power_sgd };
/// `parameter`: int8, int4: values of one block (they share a scale); top_k: share of the values
/// kept; power_sgd: rank of the approximation; 0: the default of the codec.
struct CodecRule {
  std::uint32_t bucket_class = 0;
  Codec codec = Codec::none;
  double parameter = 0;
  bool error_feedback = true;
  bool operator==(const CodecRule&) const = default;
};

/// Classes of gradient buckets. A rule for `matrices` also holds for a class without a rule of
/// its own; without any, the bucket travels as fp32.
enum BucketClass : std::uint32_t {
  kMatrices = 0,    ///< weights of layers: nearly all bytes
  kVectors = 1,     ///< biases and norms: few bytes, sensitive
  kEmbeddings = 2,  ///< rows of a table, most of them 0 in one step
  kBucketClasses = 3
};

/// The rule among `rules` that holds for a class.
CodecRule rule_for(std::span<const CodecRule> rules, std::uint32_t bucket_class);
/// The code of a tensor of that class: PowerSGD has nothing to gain on one that is no matrix. The
/// class is not set, so that tensors with equal codes have equal rules.
CodecRule rule_for(std::span<const CodecRule> rules, std::uint32_t bucket_class, bool is_matrix);

/// "int4", ...; and back: throws a usage Error with the nearest name.
std::string_view codec_name(Codec codec);
Codec codec_of_name(std::string_view name);

/// The parameter that holds: the rule's, or the codec's default.
double parameter_of(const CodecRule& rule);
/// Empty if such a codec exists, else why not ("int4: a block of 7 values: it is even, ...").
std::string objection_to(const CodecRule& rule);

/// PowerSGD sees a bucket of `count` values as this matrix, the last row filled up with zeros.
struct MatrixShape {
  std::uint64_t rows = 0, columns = 0;
  bool operator==(const MatrixShape&) const = default;
};
MatrixShape matrix_shape(std::uint64_t count);
/// The largest rank that is of use there: min(rank asked for, rows, columns).
std::uint64_t factor_rank(const CodecRule& rule, std::uint64_t count);
/// Values that top_k keeps of `count`.
std::uint64_t kept_values(const CodecRule& rule, std::uint64_t count);

/// Size of PowerSGD's two factors of such a matrix.
std::uint64_t factor_bytes(const CodecRule& rule, const MatrixShape& shape);

/// Exact size of the code of `count` values.
std::uint64_t codec_bytes(const CodecRule& rule, std::uint64_t count);

/// Bytes of the wire per byte of fp32 gradient, for a bucket of `count` values: 1 for `none`.
double codec_ratio(const CodecRule& rule, std::uint64_t count);

/// How fast codes are made and read, in bytes of fp32 gradient a second, error feedback included.
struct CodecThroughput {
  double encode = 0, decode = 0;
};
/// Measured on this kind of machine: one thread of an x86-64 CPU, or one GPU as a share of its
/// memory bandwidth (`memory_bandwidth` in bytes per second; modelled from the bytes moved).
CodecThroughput cpu_throughput(Codec codec);
CodecThroughput gpu_throughput(const CodecRule& rule, double memory_bandwidth);

/// What each of `ranks` ranks sends to reduce `count` values: twice (ranks - 1) / ranks codes, as
/// a ring does, in both steps of the compressed exchange.
double exchange_bytes(const CodecRule& rule, std::uint64_t count, std::uint32_t ranks);
/// Time each rank spends on codes for one such exchange: its whole gradient is encoded once, as
/// many values are decoded once for the sum, one part is encoded again, and all parts are decoded.
double exchange_codec_seconds(std::uint64_t count, std::uint32_t ranks,
                              const CodecThroughput& throughput);

}  // namespace orrery
