#include "tests/bench/compression_study.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "live/fabric/grpc_fabric.hpp"
#include "live/run/files/run_folder.hpp"
#include "live/training/gradient_exchange.hpp"
#include "live/training/model.hpp"
#include "live/training/text.hpp"
#include "traces/workload/model.hpp"

namespace orrery::live {
namespace {

/// Ranks as threads of this process, over real sockets, as if each had a machine of its own.
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
    fabric->disable_shared_memory();
    fabric->connect_next(addresses);
    fabric->set_link_rate(bytes_per_second);
  }
  std::vector<std::jthread> threads;
  for (auto& fabric : fabrics) threads.emplace_back([&fabric, &action] { action(*fabric); });
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

constexpr std::size_t kBlock = 2048, kHeldOutOf = 8;  // every eighth block of the text

struct SplitText {
  Text training;
  std::vector<std::uint8_t> held_out;  ///< whole sequences
  std::size_t sequences = 0;
};

SplitText split(const Text& text, std::size_t length) {
  const auto& bytes = text.bytes();
  std::vector<std::uint8_t> training, held_out;
  for (std::size_t begin = 0; begin < bytes.size(); begin += kBlock) {
    const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(begin);
    const std::size_t size = std::min(kBlock, bytes.size() - begin);
    const bool out = begin / kBlock % kHeldOutOf == kHeldOutOf - 1;
    auto& into = out ? held_out : training;
    into.insert(into.end(), from, from + static_cast<std::ptrdiff_t>(out ? size / length * length
                                                                        : size));
  }
  const std::size_t sequences = held_out.size() / length;
  return {Text(std::move(training)), std::move(held_out), sequences};
}

/// One rank of a training run.
class Trainee {
 public:
  Trainee(const Study& study, const SplitText& text, std::uint64_t seed, GrpcFabric& fabric)
      : study_(study),
        text_(text),
        seed_(seed),
        fabric_(fabric),
        network_(make_network(study.builtin, Rng(seed).split_stream("parameters"))),
        optimizer_(network_->parameters().size(), study.learning_rate),
        exchange_(gradient_tensors(network_->tensors()), 1e9) {}

  void step(Step step, std::span<const CodecRule> rules) {
    const std::size_t length =
        study_.length + builtin_cost(study_.builtin, study_.length).context;
    const std::vector<std::uint8_t> bytes =
        text_.training.sample(seed_, step, fabric_.rank(), study_.sequences, length);
    network_->zero_gradient();
    network_->accumulate_gradient({.bytes = bytes, .sequences = study_.sequences});
    const bool warm = step >= study_.warm_up;
    const std::span<const CodecRule> now = warm ? rules : std::span<const CodecRule>{};
    exchange_.reduce(fabric_, {step, 0, now}, network_->gradient());
    const double left = 1 - static_cast<double>(step) / static_cast<double>(study_.steps);
    optimizer_.set_learning_rate(study_.learning_rate * left);
    const double predictions = double(fabric_.ranks()) * study_.sequences * study_.length;
    optimizer_.update(network_->parameters(), network_->gradient(),
                      static_cast<float>(1 / predictions));
  }
  /// Returns nats a byte of the text that no run trains on.
  double held_out_loss() const {
    const double loss =
        network_->loss({.bytes = text_.held_out, .sequences = text_.sequences});
    return loss / (static_cast<double>(text_.sequences) * study_.length);
  }
  std::string hash() const { return parameters_sha256(*network_); }

 private:
  const Study& study_;
  const SplitText& text_;
  const std::uint64_t seed_;
  GrpcFabric& fabric_;
  std::unique_ptr<Network<float>> network_;
  Adam optimizer_;
  GradientExchange exchange_;
};

}  // namespace

StudyRun train(const Study& study, const std::vector<CodecRule>& rules, std::uint64_t seed) {
  const std::size_t context = builtin_cost(study.builtin, study.length).context;
  const SplitText text = split(Text::load(study.text), study.length + context);
  StudyRun run;
  std::vector<std::string> hashes(study.ranks);
  std::vector<std::uint64_t> sent(study.ranks);
  on_ranks(study.ranks, 0, [&](GrpcFabric& fabric) {
    Trainee trainee(study, text, seed, fabric);
    for (Step step = 0; step < study.steps; ++step) {
      trainee.step(step, rules);
      if (step + 2 == study.steps) sent[fabric.rank()] = fabric.bytes_sent();
    }
    sent[fabric.rank()] = fabric.bytes_sent() - sent[fabric.rank()];  // bytes of the last step
    hashes[fabric.rank()] = trainee.hash();
    if (fabric.rank() == 0) run.final_loss = trainee.held_out_loss();
  });
  for (const std::uint64_t bytes : sent) run.bytes += static_cast<double>(bytes);
  run.equal = std::all_of(hashes.begin(), hashes.end(),
                          [&](const std::string& hash) { return hash == hashes[0]; });
  return run;
}

std::vector<GradientTensor> model_tensors(const Study& study) {
  return gradient_tensors(make_network(study.builtin, Rng(0))->tensors());
}

std::vector<GradientTensor> square_tensor(std::size_t count) {
  const MatrixShape shape = matrix_shape(count);
  return {{.offset = 0, .rows = shape.rows, .columns = shape.columns}};
}

double exchange_seconds(std::uint32_t ranks, const std::vector<GradientTensor>& tensors,
                        const std::vector<CodecRule>& rules, double bytes_per_second,
                        int repeats) {
  std::vector<double> times;
  const std::size_t count = tensors.back().offset + tensors.back().size();
  on_ranks(ranks, bytes_per_second, [&](GrpcFabric& fabric) {
    GradientExchange exchange(tensors, 1e12);
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
