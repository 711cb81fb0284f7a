// Prints docs/compression.md: the spread of the uncompressed seeds, then codec x bytes x final loss
// x time at several speeds of the links, then where each codec gains time and where it loses it.
//   compression_study [STEPS [SEEDS [MODEL]]]
// Exit code 1 if the spread is 2% of the loss or more, or no code sends 60% less than bf16 with a
// mean loss inside the spread.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <thread>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/bench/compression_study.hpp"

namespace orrery::live {
namespace {

constexpr std::size_t kLarge = std::size_t{1} << 21;  // values: 8 MiB of gradient
constexpr std::array<double, 4> kRates{1e7, 1e8, 1e9, 0};
constexpr std::array<const char*, 4> kRateNames{"10 MB/s", "100 MB/s", "1 GB/s",
                                                "as fast as it goes"};
constexpr double kMostSpread = 0.02, kFewestBytes = 0.4;

struct Case {
  const char* name;
  std::vector<CodecRule> rules;
};

std::vector<Case> cases() {
  const CodecRule vectors_plain{.bucket_class = kVectors, .codec = Codec::none};
  const auto with = [&](CodecRule code) { return std::vector{code, vectors_plain}; };
  return {{"none (fp32)", {}},
          {"bf16", with({.codec = Codec::bf16, .error_feedback = false})},
          {"int8, blocks of 256", with({.codec = Codec::int8})},
          {"int4, blocks of 32", with({.codec = Codec::int4, .parameter = 32})},
          {"int4, blocks of 16", with({.codec = Codec::int4})},
          {"int4, blocks of 8", with({.codec = Codec::int4, .parameter = 8})},
          {"PowerSGD, rank 4", with({.codec = Codec::power_sgd})},
          {"top-k, 1%", with({.codec = Codec::top_k})},
          {"int4 without error feedback", with({.codec = Codec::int4, .error_feedback = false})},
          {"top-k, 0.1%, without error feedback",
           with({.codec = Codec::top_k, .parameter = 0.001, .error_feedback = false})}};
}

struct Row {
  std::string name;
  double low = 1e300, high = 0, mean = 0, bytes = 0;
  bool equal = true;
  std::vector<double> losses = {};  ///< indexed by seed
  std::array<double, kRates.size()> small{}, large{};  ///< seconds
};

double spread(const Row& plain) { return (plain.high - plain.low) / plain.mean; }
bool inside(const Row& row, const Row& plain) {
  return row.mean >= plain.low && row.mean <= plain.high;
}

Row losses_of(const Study& study, const Case& one, int seeds) {
  Row row{.name = one.name};
  for (int seed = 1; seed <= seeds; ++seed) {
    const StudyRun run = train(study, one.rules, static_cast<std::uint64_t>(seed));
    row.low = std::min(row.low, run.final_loss);
    row.high = std::max(row.high, run.final_loss);
    row.mean += run.final_loss / seeds;
    row.bytes = run.bytes;
    row.losses.push_back(run.final_loss);
    row.equal &= run.equal;
    fmt::print(stderr, "{}, seed {}: {:.4f} nats\n", one.name, seed, run.final_loss);
  }
  return row;
}

void measure_times(const Study& study, const Case& one, Row& row) {
  for (std::size_t i = 0; i < kRates.size(); ++i) {
    row.small[i] = exchange_seconds(study.ranks, model_tensors(study), one.rules, kRates[i], 9);
    row.large[i] = exchange_seconds(study.ranks, square_tensor(kLarge), one.rules, kRates[i],
                                    kRates[i] == kRates[0] ? 1 : 5);
  }
  fmt::print(stderr, "{}: timed\n", one.name);
}

/// Programs that wanted to run, in the mean over the last minute.
double load() {
  double one = 0;
  return getloadavg(&one, 1) == 1 ? one : 0;
}

void print_head(const Study& study, int seeds) {
  fmt::print("# Gradient codes: bytes, losses, times\n\nFor everybody who chooses a codec. First "
             "command: `./dev bench compression`, which wrote this page on\n{:%Y-%m-%d}. The "
             "built-in `{}` is trained on {} ranks for {} steps, {} of them without a\ncode as a "
             "warm-up, in the two-step exchange of [decision "
             "24](decisions/024-a-gradients-code-is-the-same-bytes-everywhere.md). A\n"
             "seed chooses the initial parameters and the order of the text; the final "
             "loss is that of the final\nparameters over an eighth of the text that no run trains "
             "on. Biases and norms travel as fp32. Ranks\nare threads of one process that talk by "
             "sockets as if each had a machine of its own; bytes are\ncounted there. Load average "
             "at the start: {:.1f} on {} cores; above 0.5, times without a shaped link\nare too "
             "long.\n\n",
             fmt::gmtime(std::time(nullptr)), study.builtin, study.ranks, study.steps,
             study.warm_up, load(), std::thread::hardware_concurrency());
  fmt::print("## Spread of {} uncompressed seeds\n\n", seeds);
  std::fflush(stdout);
}

void print_spread(const Row& plain) {
  fmt::print("{:.4f} to {:.4f} nats a byte, mean {:.4f}: **{:.2f}%** of the loss (goal: below "
             "{:.0f}%).\n\n",
             plain.low, plain.high, plain.mean, 100 * spread(plain), 100 * kMostSpread);
  std::fflush(stdout);
}

/// Mean over the seeds of how much the loss exceeds that of the same seed without a code.
double paired(const Row& row, const Row& plain) {
  double sum = 0;
  for (std::size_t i = 0; i < row.losses.size(); ++i) sum += row.losses[i] / plain.losses[i] - 1;
  return sum / static_cast<double>(row.losses.size());
}

void print_losses(const std::vector<Row>& rows, int seeds) {
  fmt::print("## Bytes and losses\n\nBytes that all ranks together send in a step; loss over {} "
             "seeds. Inside: the mean lies among the\nuncompressed seeds. Same seed: the mean of "
             "the loss over that of the same seed without one.\nEqual: all ranks end with the same "
             "bits.\n\n| codec | bytes | against bf16 | final loss, mean (low to high) | inside | "
             "same seed | equal |\n|---|---|---|---|---|---|---|\n",
             seeds);
  for (const Row& row : rows) {
    fmt::print("| {} | {:.0f} | {:+.1f}% | {:.4f} ({:.4f} to {:.4f}) | {} | {:+.2f}% | {} |\n",
               row.name, row.bytes, 100 * (row.bytes / rows[1].bytes - 1), row.mean, row.low,
               row.high, inside(row, rows[0]) ? "yes" : "**no**", 100 * paired(row, rows[0]),
               row.equal ? "yes" : "no");
  }
}

void print_times(const std::vector<Row>& rows, const char* what,
                 std::array<double, kRates.size()> Row::* times) {
  fmt::print("\n{}:\n\n| codec |", what);
  for (const char* name : kRateNames) fmt::print(" {} |", name);
  fmt::print("\n|---|---|---|---|---|\n");
  for (const Row& row : rows) {
    fmt::print("| {} |", row.name);
    for (const double seconds : row.*times) fmt::print(" {:.3g} |", 1e3 * seconds);
    fmt::print("\n");
  }
}

/// Links at which a code takes less time than fp32, or more; a tenth is noise.
void print_verdicts(const std::vector<Row>& rows) {
  fmt::print("\n## Where each code wins and where it loses\n\nAgainst fp32, by more than a tenth; "
             "small: the model's gradient, large: 8 MiB.\n\n| codec | faster | slower | harms the "
             "loss |\n|---|---|---|---|\n");
  for (std::size_t i = 1; i < rows.size(); ++i) {
    std::vector<std::string> faster, slower;
    for (const auto& [times, name] : {std::pair(&Row::small, "small"), {&Row::large, "large"}}) {
      for (std::size_t rate = 0; rate < kRates.size(); ++rate) {
        const double ratio = (rows[0].*times)[rate] / (rows[i].*times)[rate];
        if (ratio > 1.1) {
          faster.push_back(fmt::format("{} {} ({:.1f} x)", name, kRateNames[rate], ratio));
        } else if (ratio < 1 / 1.1) {
          slower.push_back(fmt::format("{} {} ({:.1f} x)", name, kRateNames[rate], 1 / ratio));
        }
      }
    }
    const bool harms = rows[i].mean > rows[0].high;
    fmt::print("| {} | {} | {} | {} |\n", rows[i].name, fmt::join(faster, ", "),
               fmt::join(slower, ", "),
               harms ? fmt::format("by {:.1f}%", 100 * (rows[i].mean / rows[0].mean - 1)) : "no");
  }
}

bool good_code(const Row& row, const std::vector<Row>& rows) {
  return row.bytes <= kFewestBytes * rows[1].bytes && inside(row, rows[0]) && row.equal;
}

int report(const Study& study, int seeds) {
  std::vector<Row> rows;
  print_head(study, seeds);
  for (const Case& one : cases()) {
    rows.push_back(losses_of(study, one, seeds));
    if (rows.size() == 1) print_spread(rows[0]);
  }
  print_losses(rows, seeds);
  for (std::size_t i = 0; i < rows.size(); ++i) measure_times(study, cases()[i], rows[i]);
  fmt::print("\n## Times\n\nMilliseconds of one exchange between {} ranks, medians, by what each "
             "rank's card sends a second (shaped\nby the fabric). Nothing hides them here; in "
             "training they run beside the backward pass.\n",
             study.ranks);
  print_times(rows, "The model's gradient", &Row::small);
  print_times(rows, "A matrix of 8 MiB", &Row::large);
  print_verdicts(rows);
  const bool good = std::any_of(rows.begin(), rows.end(),
                                [&](const Row& row) { return good_code(row, rows); });
  fmt::print("\nA code with at least 60% fewer bytes than bf16 whose mean loss lies inside the "
             "spread: {}.\n",
             good ? "yes" : "no");
  return good && spread(rows[0]) < kMostSpread ? 0 : 1;
}

}  // namespace
}  // namespace orrery::live

int main(int count, char** values) {
  using namespace orrery::live;
  Study study;
  if (count > 1) study.steps = std::strtoull(values[1], nullptr, 10);
  const int seeds = count > 2 ? std::atoi(values[2]) : 5;
  if (count > 3) study.builtin = values[3];
  return report(study, seeds);
}
