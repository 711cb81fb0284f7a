// Compression of gradients and its cost: the vocabulary that policies, both worlds and the codecs
// (live/codec) share, so that a policy's bytes are the wire's bytes. Pure functions, thread-safe.
// Counts are fp32 values, sizes bytes, times seconds. For example, int8 with blocks of 256 values
// takes count + 4 ceil(count / 256) bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// Codes of a gradient; `none` is plain fp32.
enum class Codec : std::uint8_t { none, bf16, fp16, int8, int4, top_k, power_sgd };
/// Code of a class of buckets. `parameter`: int8, int4: values of one block (they share a scale);
/// top_k: fraction of the values kept; power_sgd: rank of the approximation; 0: the codec's
/// default.
struct CodecRule {
  std::uint32_t bucket_class = 0;
  Codec codec = Codec::none;
  double parameter = 0;
  bool error_feedback = true;
  bool operator==(const CodecRule&) const = default;
};

/// Classes of gradient buckets. A rule for `matrices` also applies to a class without a rule of its
/// own; without any rule, a bucket is sent as fp32.
enum BucketClass : std::uint32_t {
  kMatrices = 0,    ///< weights of layers: nearly all bytes
  kVectors = 1,     ///< biases and norms: few bytes, sensitive
  kEmbeddings = 2,  ///< rows of a table, most of them 0 in one step
  kBucketClasses = 3
};

/// Returns the rule that applies to a class, with this class; `none` if no rule applies.
CodecRule rule_for(std::span<const CodecRule> rules, std::uint32_t bucket_class);
/// Returns the code of a tensor of that class; `none` instead of PowerSGD for a tensor that is no
/// matrix. The class of the result is 0, so that tensors with equal codes have equal rules.
CodecRule rule_for(std::span<const CodecRule> rules, std::uint32_t bucket_class, bool is_matrix);

/// Returns the name of a codec, for example "int4".
std::string_view codec_name(Codec codec);
/// Returns the codec of a name. Throws a usage Error with the nearest name.
Codec codec_of_name(std::string_view name);

/// Returns the parameter: the rule's, or the codec's default.
double parameter_of(const CodecRule& rule);
/// Returns the reason why no such codec exists ("int4: a block of 7 values (an even number from 8
/// to 65536)"); empty if one exists. The functions below need a rule without such a reason (not
/// checked).
std::string objection_to(const CodecRule& rule);

/// Matrix as which PowerSGD treats a bucket of `count` values, the last row filled with zeros.
struct MatrixShape {
  std::uint64_t rows = 0, columns = 0;
  bool operator==(const MatrixShape&) const = default;
};
/// Returns the matrix of a bucket of `count` values.
MatrixShape matrix_shape(std::uint64_t count);
/// Returns the largest useful rank: min(requested rank, rows, columns).
std::uint64_t factor_rank(const CodecRule& rule, std::uint64_t count);
/// Returns the number of values that top_k keeps of `count`.
std::uint64_t kept_values(const CodecRule& rule, std::uint64_t count);

/// Returns the size of PowerSGD's two factors of such a matrix.
std::uint64_t factor_bytes(const CodecRule& rule, const MatrixShape& shape);

/// Returns the exact size of the code of `count` values.
std::uint64_t codec_bytes(const CodecRule& rule, std::uint64_t count);

/// Returns the wire bytes for each byte of fp32 gradient, for a bucket of `count` values: 1 for
/// `none` and for 0 values.
double codec_ratio(const CodecRule& rule, std::uint64_t count);

/// Speed of encoding and decoding in bytes of fp32 gradient per second, error feedback included.
struct CodecThroughput {
  double encode = 0, decode = 0;
};
/// Returns the measured speed of one thread of an x86-64 CPU; zeros for `none`.
CodecThroughput cpu_throughput(Codec codec);
/// Returns the speed of one GPU, modelled from the moved bytes and `memory_bandwidth` in bytes per
/// second; zeros for `none`.
CodecThroughput gpu_throughput(const CodecRule& rule, double memory_bandwidth);

/// Returns the bytes that each of `ranks` ranks sends to reduce `count` values: twice (ranks - 1) /
/// ranks codes, as in a ring, in both steps of the compressed exchange. Returns 0 for one rank.
double exchange_bytes(const CodecRule& rule, std::uint64_t count, std::uint32_t ranks);
/// Returns the time that each rank spends on codes in one such exchange: its whole gradient is
/// encoded once, as many values are decoded once for the sum, one part is encoded again, and all
/// parts are decoded. Returns 0 for one rank or without a throughput.
double exchange_codec_seconds(std::uint64_t count, std::uint32_t ranks,
                              const CodecThroughput& throughput);

}  // namespace orrery
