// Prints the tables of the compression study:
//   compression_study [STEPS [SEEDS [MODEL]]]
// First the spread of the uncompressed seeds, then codec x bytes x final loss, then where a codec
// gains time and where it loses it, by the speed of the links.
#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "tests/bench/compression_study.hpp"

namespace orrery::live {
namespace {

struct Case {
  const char* name;
  std::vector<CodecRule> rules;
};

std::vector<Case> cases() {
  const CodecRule vectors_plain{.bucket_class = kVectors, .codec = Codec::none};
  const auto with = [&](CodecRule code) { return std::vector{code, vectors_plain}; };
  return {{"none (fp32)", {}},
          {"bf16", with({.codec = Codec::bf16})},
          {"fp16", with({.codec = Codec::fp16})},
          {"int8/256", with({.codec = Codec::int8})},
          {"int4/32", with({.codec = Codec::int4})},
          {"int4/32, no feedback", with({.codec = Codec::int4, .error_feedback = false})},
          {"top_k 1%", with({.codec = Codec::top_k})},
          {"power_sgd 4", with({.codec = Codec::power_sgd})}};
}

struct Losses {
  double low = 1e300, high = 0, mean = 0, bytes = 0, exchange_s = 0;
  bool equal = true;
};

Losses losses_of(const Study& study, const Case& one, int seeds) {
  Losses all;
  for (int seed = 1; seed <= seeds; ++seed) {
    const StudyRun run = train(study, one.rules, static_cast<std::uint64_t>(seed));
    all.low = std::min(all.low, run.final_loss);
    all.high = std::max(all.high, run.final_loss);
    all.mean += run.final_loss / seeds;
    all.bytes = run.bytes;
    all.exchange_s = run.exchange_s;
    all.equal &= run.equal;
  }
  return all;
}

void print_losses(const Study& study, int seeds) {
  fmt::print("{} on {} ranks, {} steps, {} seeds\n", study.builtin, study.ranks, study.steps,
             seeds);
  Losses plain;
  double bf16_bytes = 0;
  for (const Case& one : cases()) {
    const Losses seen = losses_of(study, one, seeds);
    if (one.rules.empty()) {
      plain = seen;
      fmt::print("spread of the uncompressed seeds: {:.4f} .. {:.4f} nats a byte, {:.2f}%\n\n",
                 plain.low, plain.high, 100 * (plain.high - plain.low) / plain.mean);
      fmt::print("| codec | bytes a step | against bf16 | final loss, mean (low .. high) | "
                 "inside the spread | ranks equal |\n|---|---|---|---|---|---|\n");
    }
    if (!one.rules.empty() && one.rules[0].codec == Codec::bf16) bf16_bytes = seen.bytes;
    const bool inside = seen.mean >= plain.low && seen.mean <= plain.high;
    const std::string against =
        bf16_bytes > 0 ? fmt::format("{:+.1f}%", 100 * (seen.bytes / bf16_bytes - 1)) : "";
    fmt::print("| {} | {:.0f} | {} | {:.4f} ({:.4f} .. {:.4f}) | {} | {} |\n", one.name,
               seen.bytes, against, seen.mean, seen.low, seen.high, inside ? "yes" : "no",
               seen.equal ? "yes" : "no");
    std::fflush(stdout);
  }
}

void print_times(std::uint32_t ranks) {
  constexpr std::size_t kValues = 1 << 18;
  fmt::print("\nmilliseconds of one exchange of {} MiB between {} ranks, by what a rank's card "
             "sends a second\n\n| codec | 10 MB/s | 100 MB/s | 1 GB/s | as fast as it goes |\n"
             "|---|---|---|---|---|\n",
             4 * kValues >> 20, ranks);
  for (const Case& one : cases()) {
    if (!one.rules.empty() && one.rules[0].codec == Codec::power_sgd) continue;  // of matrices
    fmt::print("| {} |", one.name);
    for (const double rate : {1e7, 1e8, 1e9, 0.0}) {
      fmt::print(" {:.1f} |", 1e3 * exchange_seconds(ranks, kValues, one.rules, rate, 5));
      std::fflush(stdout);
    }
    fmt::print("\n");
  }
}

}  // namespace
}  // namespace orrery::live

int main(int count, char** values) {
  using namespace orrery::live;
  Study study;
  if (count > 1) study.steps = std::strtoull(values[1], nullptr, 10);
  const int seeds = count > 2 ? std::atoi(values[2]) : 5;
  if (count > 3) study.builtin = values[3];
  print_losses(study, seeds);
  print_times(study.ranks);
  return 0;
}
