#include "traces/workload/gradient_codec.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include "core/error.hpp"

namespace orrery {
namespace {

/// Facts about one codec, in the order of the enumeration. `moved`: bytes of device memory read and
/// written per value to encode (error feedback included) and to decode. `cpu`: gigabytes of
/// gradient a second, 4 MiB at a time, as `./dev bench codec` prints them (2026-11-21, int4 a day
/// later; one core of a cloud x86-64 machine without AVX in the build).
struct Facts {
  std::string_view name;
  double parameter;
  double moved_encode, moved_decode;
  CodecThroughput cpu;
};
constexpr std::array<Facts, 7> kFacts{{
    {"none", 0, 0, 0, {0, 0}},
    {"bf16", 0, 14, 6, {4.4e9, 50e9}},
    {"fp16", 0, 14, 6, {1.5e9, 3.5e9}},
    {"int8", 256, 13.02, 5.02, {3.1e9, 19e9}},
    {"int4", 16, 12.63, 4.63, {1.0e9, 2.9e9}},
    {"top_k", 0.01, 20, 4.1, {0.7e9, 74e9}},
    {"power_sgd", 4, 24, 4.1, {0.56e9, 1.9e9}},
}};

const Facts& facts(Codec codec) { return kFacts.at(static_cast<std::size_t>(codec)); }

std::uint64_t divide_up(std::uint64_t value, std::uint64_t by) { return (value + by - 1) / by; }

std::uint64_t blocks_of(const CodecRule& rule, std::uint64_t count) {
  return divide_up(count, static_cast<std::uint64_t>(parameter_of(rule)));
}

/// Returns a number with at most six significant digits.
std::string text_of(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

}  // namespace

CodecRule rule_for(std::span<const CodecRule> rules, std::uint32_t bucket_class) {
  CodecRule found{.bucket_class = bucket_class};
  for (const CodecRule& rule : rules) {
    if (rule.bucket_class == bucket_class) return rule;
    if (rule.bucket_class == kMatrices) {
      found = rule;
      found.bucket_class = bucket_class;
    }
  }
  return found;
}

CodecRule rule_for(std::span<const CodecRule> rules, std::uint32_t bucket_class, bool is_matrix) {
  CodecRule rule = rule_for(rules, bucket_class);
  rule.bucket_class = 0;
  if (rule.codec == Codec::power_sgd && !is_matrix) rule = {};
  return rule;
}

std::string_view codec_name(Codec codec) { return facts(codec).name; }

Codec codec_of_name(std::string_view name) {
  std::vector<std::string> known;
  for (std::size_t i = 0; i < kFacts.size(); ++i) {
    if (kFacts[i].name == name) return static_cast<Codec>(i);
    known.emplace_back(kFacts[i].name);
  }
  throw Error(ErrorKind::usage,
              "there is no codec '" + std::string(name) + "'" + did_you_mean(name, known));
}

double parameter_of(const CodecRule& rule) {
  return rule.parameter == 0 ? facts(rule.codec).parameter : rule.parameter;
}

std::string objection_to(const CodecRule& rule) {
  if (rule.codec > Codec::power_sgd) return "there is no such codec";
  const double value = parameter_of(rule);
  const std::string name(codec_name(rule.codec));
  switch (rule.codec) {
    case Codec::int8:
    case Codec::int4:
      if (value >= 8 && value <= 65536 && std::fmod(value, 2) == 0) return {};
      return name + ": a block of " + text_of(value) + " values (an even number from 8 to 65536)";
    case Codec::top_k:
      if (value > 0 && value <= 1) return {};
      return name + ": a share of " + text_of(value) + " (above 0, at most 1)";
    case Codec::power_sgd:
      if (value >= 1 && value <= 64 && std::fmod(value, 1) == 0) return {};
      return name + ": rank " + text_of(value) + " (a whole number from 1 to 64)";
    default:
      if (rule.parameter == 0) return {};
      return name + " has no parameter, not " + text_of(value);
  }
}

MatrixShape matrix_shape(std::uint64_t count) {
  if (count == 0) return {};
  auto columns = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(count)));
  columns = std::max<std::uint64_t>(columns, 1);
  return {.rows = divide_up(count, columns), .columns = columns};
}

std::uint64_t factor_rank(const CodecRule& rule, std::uint64_t count) {
  const MatrixShape shape = matrix_shape(count);
  return std::min({static_cast<std::uint64_t>(parameter_of(rule)), shape.rows, shape.columns});
}

std::uint64_t factor_bytes(const CodecRule& rule, const MatrixShape& shape) {
  const std::uint64_t rank =
      std::min({static_cast<std::uint64_t>(parameter_of(rule)), shape.rows, shape.columns});
  return 4 * rank * (shape.rows + shape.columns);
}

std::uint64_t kept_values(const CodecRule& rule, std::uint64_t count) {
  const double kept = std::ceil(parameter_of(rule) * static_cast<double>(count));
  return std::min(count, static_cast<std::uint64_t>(kept));
}

std::uint64_t codec_bytes(const CodecRule& rule, std::uint64_t count) {
  switch (rule.codec) {
    case Codec::none: return 4 * count;
    case Codec::bf16:
    case Codec::fp16: return 2 * count;
    case Codec::int8: return count + 4 * blocks_of(rule, count);
    case Codec::int4: return divide_up(count, 2) + 2 * blocks_of(rule, count);
    case Codec::top_k: return 8 * kept_values(rule, count);
    case Codec::power_sgd: return factor_bytes(rule, matrix_shape(count));
  }
  return 4 * count;
}

double codec_ratio(const CodecRule& rule, std::uint64_t count) {
  if (count == 0) return 1;
  return static_cast<double>(codec_bytes(rule, count)) / (4.0 * static_cast<double>(count));
}

CodecThroughput cpu_throughput(Codec codec) { return facts(codec).cpu; }

CodecThroughput gpu_throughput(const CodecRule& rule, double memory_bandwidth) {
  if (rule.codec == Codec::none) return {};
  const Facts& codec = facts(rule.codec);
  return {.encode = memory_bandwidth * 4.0 / codec.moved_encode,
          .decode = memory_bandwidth * 4.0 / codec.moved_decode};
}

double exchange_bytes(const CodecRule& rule, std::uint64_t count, std::uint32_t ranks) {
  if (ranks < 2) return 0;
  const double share = static_cast<double>(ranks - 1) / ranks;
  return 2 * share * static_cast<double>(codec_bytes(rule, count));
}

double exchange_codec_seconds(std::uint64_t count, std::uint32_t ranks,
                              const CodecThroughput& throughput) {
  if (ranks < 2 || throughput.encode <= 0 || throughput.decode <= 0) return 0;
  const double bytes = 4.0 * static_cast<double>(count);
  return bytes * (1.0 + 1.0 / ranks) / throughput.encode + 2 * bytes / throughput.decode;
}

}  // namespace orrery
