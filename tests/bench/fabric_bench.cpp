// All-reduce of fp32 vectors between four processes on this machine, in turns: the live fabric, its
// streams alone without and with mutual TLS, and Gloo; then the fabric's algorithms. `fabric_bench`
// starts the ranks and prints the tables; every rank is this program too. A sample is the time of
// the slowest rank. Ratios are of neighbouring samples, so that other load of the machine affects
// both.
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/process.hpp"
#include "live/fabric/grpc_fabric.hpp"
#include "live/machine/host_clock.hpp"
#include "live/run/files/run_folder.hpp"
#include "tests/bench/contender.hpp"

namespace orrery::live {
namespace {

constexpr std::uint32_t kRanks = 4;
constexpr std::size_t kPairs = 31;

struct Size {
  const char* name;
  std::size_t bytes;
  int calls;    ///< number in one sample
  double goal;  ///< limit of the first contender's ratio to Gloo; 0: none
};
constexpr Size kSizes[] = {{"1 KiB", 1 << 10, 100, 1.0},
                           {"16 KiB", 16 << 10, 40, 0},
                           {"256 KiB", 256 << 10, 15, 0},
                           {"4 MiB", 4 << 20, 3, 1.3},
                           {"64 MiB", 64 << 20, 2, 1.3}};

/// A race: who runs, and who is the measure (the last).
struct Race {
  const char* name;
  std::vector<const char*> contenders;
  bool has_goals;
};
const Race kRaces[] = {
    {"Gloo", {"fabric", "streams alone", "streams, mutual TLS", "Gloo"}, true},
    {"the ring", {"halving-doubling", "tree", "ring"}, false},
};

class Ours : public Contender {
 public:
  Ours(std::uint32_t rank, const std::string& base, const Secrets& secrets, bool streams = false,
       CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic) {
    std::vector<std::string> addresses;
    for (std::uint32_t each = 0; each < kRanks; ++each) {
      addresses.push_back(fmt::format("unix:{}-{}", base, each));
    }
    fabric_ = std::make_unique<GrpcFabric>(rank, kRanks, addresses[rank], secrets);
    if (streams) fabric_->disable_shared_memory();
    fabric_->use_collectives({{.kind = CollectiveKind::all_reduce, .algorithm = algorithm}});
    fabric_->connect_next(addresses);
  }
  void all_reduce(std::span<float> values) override { fabric_->all_reduce(values); }

 private:
  std::unique_ptr<GrpcFabric> fabric_;
};

using Contenders = std::vector<std::unique_ptr<Contender>>;

Contenders make_contenders(std::size_t race, std::uint32_t rank, const std::string& folder) {
  const Secrets plain = read_secrets(folder, false), tls = read_secrets(folder, true);
  const std::string base = fmt::format("{}/{}", folder, race);
  Contenders all;
  if (race == 0) {
    all.push_back(std::make_unique<Ours>(rank, base + "a", plain));
    all.push_back(std::make_unique<Ours>(rank, base + "b", plain, true));
    all.push_back(std::make_unique<Ours>(rank, base + "c", tls, true));
    all.push_back(make_gloo(rank, kRanks, base + "d"));
  } else {
    using Algorithm = CollectiveAlgorithm;
    char which = 'a';
    for (const Algorithm each : {Algorithm::halving_doubling, Algorithm::tree, Algorithm::ring}) {
      all.push_back(std::make_unique<Ours>(rank, base + which++, plain, false, each));
    }
  }
  return all;
}

double sample(Contender& contender, std::vector<float>& values, int calls) {
  contender.all_reduce(std::span(values).first(1));  // all begin together
  const auto start = Clock::now();
  for (int i = 0; i < calls; ++i) contender.all_reduce(values);
  return to_seconds(since(start)) / calls;
}

/// Every sample in the order in which both ends know them: by size, pair, contender.
std::vector<double> run_race(Contenders& contenders) {
  std::vector<double> out;
  for (const Size& size : kSizes) {
    std::vector<float> values(size.bytes / sizeof(float), 0.0F);
    for (std::size_t pair = 0; pair < kPairs + 1; ++pair) {  // the first warms up
      std::vector<double> seconds(contenders.size(), 0.0);
      for (std::size_t turn = 0; turn < contenders.size(); ++turn) {
        const std::size_t which = (turn + pair) % contenders.size();
        if (!contenders[which]) continue;
        seconds[which] = sample(*contenders[which], values, size.calls);
      }
      if (pair > 0) out.insert(out.end(), seconds.begin(), seconds.end());
    }
  }
  return out;
}

int run_rank(std::uint32_t rank, std::size_t race) {
  const std::optional<std::string> folder = read_message(kChildDescriptor);
  if (!folder) return 1;
  Contenders contenders = make_contenders(race, rank, *folder);
  const std::vector<double> samples = run_race(contenders);
  std::string bytes(samples.size() * sizeof(double), '\0');
  std::memcpy(bytes.data(), samples.data(), bytes.size());
  write_message(kChildDescriptor, bytes);
  read_message(kChildDescriptor);  // waits for all: the first to leave breaks the others
  return 0;
}

struct Middle {
  double median = 0, low = 0, high = 0;
};

/// Median with its 95% interval from order statistics: no assumption on the distribution.
Middle middle_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t count = values.size();
  // The largest k so that fewer than k of `count` fair coins fall on one side in at most 2.5%.
  double below = 0, choose = std::pow(0.5, static_cast<double>(count));
  std::size_t k = 0;
  for (; below + choose <= 0.025; ++k) {
    below += choose;
    choose *= static_cast<double>(count - k) / static_cast<double>(k + 1);
  }
  const std::size_t edge = k == 0 ? 0 : k - 1;
  return {values[count / 2], values[edge], values[count - 1 - edge]};
}

/// The samples of all pairs of one size and contender.
std::vector<double> pick(const std::vector<double>& all, std::size_t contenders, std::size_t size,
                         std::size_t which) {
  std::vector<double> out;
  for (std::size_t pair = 0; pair < kPairs; ++pair) {
    out.push_back(all[(size * kPairs + pair) * contenders + which]);
  }
  return out;
}

/// Largest spread relative to the goal, or to the median without a goal.
constexpr double kMostSpread = 0.25;

std::string verdict(const Middle& ratio, double goal) {
  const double scale = goal > 0 ? goal : ratio.median;
  if (ratio.high - ratio.low > kMostSpread * scale) return "too noisy";
  if (goal <= 0) return "";
  if (ratio.high <= goal) return fmt::format("passed: at most {}", goal);
  return ratio.low > goal ? fmt::format("missed: at most {}", goal) : "undecided";
}

void print(const Race& race, const std::vector<double>& all) {
  const std::size_t count = race.contenders.size();
  fmt::print("\n| bytes | | ms | ratio to {} | 95% | goal |\n|---:|---|---:|---:|---:|---|\n",
             race.name);
  for (std::size_t size = 0; size < std::size(kSizes); ++size) {
    const std::vector<double> measure = pick(all, count, size, count - 1);
    for (std::size_t which = 0; which < count; ++which) {
      std::vector<double> own = pick(all, count, size, which);
      if (own[0] == 0) continue;
      fmt::print("| {} | {} | {:.3f} |", kSizes[size].name, race.contenders[which],
                 1e3 * middle_of(own).median);
      if (measure[0] == 0 || which == count - 1) {
        fmt::print(" | | |\n");
        continue;
      }
      for (std::size_t i = 0; i < kPairs; ++i) own[i] /= measure[i];
      const Middle ratio = middle_of(own);
      const double goal = race.has_goals && which == 0 ? kSizes[size].goal : 0;
      fmt::print(" {:.2f} | {:.2f} to {:.2f} | {} |\n", ratio.median, ratio.low, ratio.high,
                 verdict(ratio, goal));
    }
  }
}

/// All samples, each the slowest rank's.
std::vector<double> measure(const std::string& program, std::size_t race) {
  const RunFolder folder;
  write_secrets(make_secrets(true), folder.path());
  std::vector<ChildProcess> ranks;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back(program,
                       std::vector<std::string>{std::to_string(rank), std::to_string(race)});
    write_message(ranks.back().channel(), folder.path());
  }
  std::vector<double> slowest;
  for (ChildProcess& rank : ranks) {
    const std::optional<std::string> bytes = read_message(rank.channel());
    if (!bytes) throw Error(ErrorKind::environment, "a rank ended early");
    std::vector<double> samples(bytes->size() / sizeof(double));
    std::memcpy(samples.data(), bytes->data(), bytes->size());
    slowest.resize(samples.size(), 0.0);
    std::transform(samples.begin(), samples.end(), slowest.begin(), slowest.begin(),
                   [](double a, double b) { return std::max(a, b); });
  }
  for (ChildProcess& rank : ranks) rank.close_channel();
  return slowest;
}

int run(const std::string& program) {
  double load = 0;
  getloadavg(&load, 1);
  fmt::print("{} ranks on {} cores; {} pairs; load average {:.1f}{}\n", kRanks,
             std::thread::hardware_concurrency(), kPairs, load,
             sched_getscheduler(0) == SCHED_FIFO ? ", scheduled before everything else" : "");
  for (std::size_t race = 0; race < std::size(kRaces); ++race) {
    const std::vector<double> samples = measure(program, race);
    if (race == 0 && pick(samples, kRaces[0].contenders.size(), 0, 3)[0] == 0) {
      fmt::print("built without Gloo (Debian's libgloo-dev): no ratios, nothing passed\n");
    }
    print(kRaces[race], samples);
  }
  return 0;
}

}  // namespace
}  // namespace orrery::live

int main(int count, char** arguments) {
  using namespace orrery;
  try {
    if (count > 2) {
      return live::run_rank(static_cast<std::uint32_t>(std::stoul(arguments[1])),
                            std::stoul(arguments[2]));
    }
    return live::run(sibling_program("fabric_bench"));
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
