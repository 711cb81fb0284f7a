#include "policies/compression/codec_uses.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "policies/compression/bucket_class.hpp"
#include "traces/workload/job_choices.hpp"
#include "traces/workload/model.hpp"

namespace orrery {
namespace {

GradientPart matrix(std::uint64_t rows, std::uint64_t columns, BucketClass of = kMatrices) {
  return {.count = rows * columns, .bucket_class = of, .shape = {rows, columns}};
}
GradientPart vector(std::uint64_t size) { return {.count = size, .bucket_class = kVectors}; }

/// Returns the tensors in the order of live/training/model.cpp.
std::vector<GradientPart> language_model() {
  using M = BuiltinModel;
  return {matrix(M::embedding, M::vocabulary, kEmbeddings), vector(M::hidden),
          matrix(M::hidden, std::uint64_t{M::context} * M::embedding), vector(M::vocabulary),
          matrix(M::vocabulary, M::hidden)};
}

/// Returns the tensors in the order of live/training/transformer.cpp.
std::vector<GradientPart> transformer() {
  using M = BuiltinTransformer;
  std::vector<GradientPart> parts{matrix(M::hidden, M::vocabulary, kEmbeddings),
                                  matrix(M::vocabulary, M::hidden)};
  for (std::uint32_t layer = 0; layer < M::layers; ++layer) {
    parts.insert(parts.end(), {vector(M::hidden), matrix(M::hidden, M::hidden),
                               matrix(3 * M::hidden, M::hidden),
                               matrix(M::hidden, M::feed_forward), vector(M::hidden),
                               matrix(2 * M::feed_forward, M::hidden)});
  }
  parts.push_back(vector(M::hidden));
  return parts;
}

CodecUse& use_of(std::vector<CodecUse>& uses, Codec codec, std::uint32_t bucket_class) {
  const std::string_view name = codec_name(codec), of = kBucketClassNames.at(bucket_class);
  for (CodecUse& use : uses) {
    if (use.codec() == name && use.bucket_class() == of) return use;
  }
  CodecUse& fresh = uses.emplace_back();
  fresh.set_codec(std::string(name));
  fresh.set_bucket_class(std::string(of));
  return fresh;
}

CodecRule rule_of(const GradientPart& part, std::span<const CodecRule> rules) {
  return rule_for(rules, part.bucket_class, part.shape.rows > 0);
}

}  // namespace

std::vector<GradientPart> gradient_parts(const Model& model) {
  if (const std::optional<BuiltinKind> builtin = builtin_kind(model)) {
    return *builtin == BuiltinKind::transformer ? transformer() : language_model();
  }
  const GradientClasses classes = gradient_classes(model);
  std::vector<GradientPart> parts;
  const auto add = [&](double values, BucketClass of) {
    const auto count = static_cast<std::uint64_t>(std::llround(std::max(values, 0.0)));
    if (count == 0) return;
    parts.push_back({.count = count,
                     .bucket_class = of,
                     .shape = of == kVectors ? MatrixShape{} : matrix_shape(count)});
  };
  add(classes.embeddings, kEmbeddings);
  add(classes.vectors, kVectors);
  add(classes.matrices, kMatrices);
  return parts;
}

double CodecUses::code_bytes(const GradientPart& part, std::span<const CodecRule> rules) const {
  if (rules.empty()) return value_bytes_ * static_cast<double>(part.count);
  const CodecRule code = rule_of(part, rules);
  const bool factors = code.codec == Codec::power_sgd;
  return static_cast<double>(factors ? factor_bytes(code, part.shape)
                                     : codec_bytes(code, part.count));
}

void CodecUses::add_steps(std::span<const CodecRule> rules, std::uint32_t ranks,
                          std::uint64_t steps) {
  if (ranks < 2) return;
  const double times = static_cast<double>(ranks) * static_cast<double>(steps);
  for (const GradientPart& part : parts_) {
    CodecUse& use = use_of(uses_, rule_of(part, rules).codec, part.bucket_class);
    use.set_gradient_bytes(use.gradient_bytes() +
                           times * static_cast<double>(part.count * sizeof(float)));
    use.set_code_bytes(use.code_bytes() + times * code_bytes(part, rules));
  }
}

void CodecUses::fill(Report& report) const {
  for (const CodecUse& use : uses_) *report.add_codecs() = use;
}

}  // namespace orrery
