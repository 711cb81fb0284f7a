#include "tests/bench/compression_study.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "live/gradient_exchange.hpp"
#include "live/grpc_fabric.hpp"
#include "live/model.hpp"
#include "live/run_folder.hpp"
#include "live/text.hpp"
#include "traces/model.hpp"

namespace orrery::live {
namespace {

/// Ranks as threads of this process, over real sockets.
void on_ranks(std::uint32_t ranks, double bytes_per_second,
              const std::function<void(GrpcFabric&)>& action) {
  const RunFolder folder;
  std::vector<std::string> addresses;
  std::vector<std::unique_ptr<GrpcFabric>> fabrics;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    addresses.push_back("unix:" + folder.path() + "/" + std::to_string(rank));
    fabrics.push_back(
        std::make_unique<GrpcFabric>(rank, ranks, addresses.back(), Secrets{.token = "study"}));
  }
  for (auto& fabric : fabrics) {
    fabric->connect(addresses);
    fabric->set_link_rate(bytes_per_second);
  }
  std::vector<std::jthread> threads;
  for (auto& fabric : fabrics) threads.emplace_back([&fabric, &action] { action(*fabric); });
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

/// One rank of a training run.
class Trainee {
 public:
  Trainee(const Study& study, const Text& text, std::uint64_t seed, GrpcFabric& fabric)
      : study_(study),
        text_(text),
        seed_(seed),
        fabric_(fabric),
        network_(make_network(study.builtin, Rng(seed).split("parameters"))),
        optimizer_(network_->parameters().size(), study.learning_rate),
        exchange_(gradient_tensors(network_->tensors()), 1e9) {}

  /// Returns this rank's summed loss.
  double step(Step step, std::span<const CodecRule> rules) {
    const std::size_t length =
        study_.length + builtin_cost(study_.builtin, study_.length).context;
    const std::vector<std::uint8_t> bytes =
        text_.sample(seed_, step, fabric_.rank(), study_.sequences, length);
    network_->zero_gradient();
    const double loss = network_->accumulate({.bytes = bytes, .sequences = study_.sequences});
    const bool warm = step >= study_.warm_up;
    const auto start = std::chrono::steady_clock::now();
    const std::span<const CodecRule> now = warm ? rules : std::span<const CodecRule>{};
    exchange_.reduce(fabric_, {step, 0, now}, network_->gradient());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    times_.push_back(took.count());
    const double predictions = double(fabric_.ranks()) * study_.sequences * study_.length;
    optimizer_.update(network_->parameters(), network_->gradient(),
                      static_cast<float>(1 / predictions));
    return loss;
  }
  double exchange_time() const { return median(times_); }
  std::string hash() const { return parameters_sha256(*network_); }

 private:
  const Study& study_;
  const Text& text_;
  const std::uint64_t seed_;
  GrpcFabric& fabric_;
  std::unique_ptr<Network<float>> network_;
  Adam optimizer_;
  GradientExchange exchange_;
  std::vector<double> times_;
};

}  // namespace

StudyRun train(const Study& study, const std::vector<CodecRule>& rules, std::uint64_t seed) {
  const Text text = Text::load(study.text);
  StudyRun run;
  std::vector<std::string> hashes(study.ranks);
  std::vector<std::vector<double>> losses(study.ranks);
  on_ranks(study.ranks, 0, [&](GrpcFabric& fabric) {
    Trainee trainee(study, text, seed, fabric);
    for (Step step = 0; step < study.steps; ++step) {
      losses[fabric.rank()].push_back(trainee.step(step, rules));
    }
    hashes[fabric.rank()] = trainee.hash();
    if (fabric.rank() != 0) return;
    run.bytes = static_cast<double>(fabric.bytes_sent()) / static_cast<double>(study.steps);
    run.exchange_s = trainee.exchange_time();
  });
  run.equal = std::all_of(hashes.begin(), hashes.end(),
                          [&](const std::string& hash) { return hash == hashes[0]; });
  const std::size_t last = std::max<std::size_t>(study.steps / 10, 1);
  for (const auto& of_rank : losses) {
    for (std::size_t i = of_rank.size() - last; i < of_rank.size(); ++i) {
      run.final_loss += of_rank[i];
    }
  }
  run.final_loss /= static_cast<double>(last) * study.ranks * study.sequences * study.length;
  return run;
}

double exchange_seconds(std::uint32_t ranks, std::size_t count, const std::vector<CodecRule>& rules,
                        double bytes_per_second, int repeats) {
  std::vector<double> times;
  on_ranks(ranks, bytes_per_second, [&](GrpcFabric& fabric) {
    GradientExchange exchange({{.offset = 0, .rows = count, .columns = 1}}, 1e12);
    Rng rng(fabric.rank());
    std::vector<float> fresh(count), values;
    for (float& value : fresh) value = static_cast<float>(rng.uniform() - 0.5);
    for (int i = 0; i <= repeats; ++i) {
      values = fresh;
      const auto start = std::chrono::steady_clock::now();
      exchange.reduce(fabric, {static_cast<Step>(i), 0, rules}, values);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      if (fabric.rank() == 0 && i > 0) times.push_back(took.count());
    }
  });
  return median(times);
}

}  // namespace orrery::live
