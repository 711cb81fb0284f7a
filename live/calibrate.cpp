#include "live/calibrate.hpp"

#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include <Eigen/Core>
#include <fmt/format.h>

#include "core/random.hpp"
#include "live/codec/codec.hpp"
#include "live/fabric/grpc_fabric.hpp"
#include "live/machine/host_clock.hpp"
#include "live/run/files/run_folder.hpp"
#include "live/training/device.hpp"
#include "live/training/fixed_point.hpp"
#include "live/training/network.hpp"
#include "live/transport/secrets.hpp"

namespace orrery::live {
namespace {

/// Values of a built-in model's gradient, about.
constexpr std::size_t kGradientValues = 1 << 17;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Seconds of one call: the median of `samples`, each as many calls as make `least` seconds.
double time_of(const std::function<void()>& call, int samples, double least) {
  call();  // caches, pages
  const auto once = Clock::now();
  call();
  const double first = std::max(1e-9, to_seconds(since(once)));
  const int calls = std::max(1, static_cast<int>(least / first));
  std::vector<double> times;
  for (int sample = 0; sample < samples; ++sample) {
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    times.push_back(to_seconds(since(start)) / calls);
  }
  return median(std::move(times));
}

class Bench {
 public:
  explicit Bench(const MeasureOptions& options)
      : options_(options), samples_(options.quick ? 5 : 11), least_(options.quick ? 2e-3 : 1e-2) {}

  MachineMeasurements run() {
    out_.set_cores(std::max(1u, std::thread::hardware_concurrency()));
    out_.set_memory(static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                    static_cast<double>(sysconf(_SC_PAGESIZE)));
    products();
    copy();
    update();
    codecs();
    for (const std::uint32_t ranks : options_.ranks) sums(ranks);
    return std::move(out_);
  }

 private:
  void products();
  void copy();
  void update();
  void codecs();
  void sums(std::uint32_t ranks);
  std::vector<double> exchange_times(Fabric& fabric, std::barrier<>& together, std::size_t values);

  const MeasureOptions& options_;
  const int samples_;
  const double least_;
  MachineMeasurements out_;
};

void Bench::products() {
  struct Shape {
    Eigen::Index m, n, k;
  };
  std::vector<Shape> shapes{{64, 64, 64}, {128, 128, 128}, {256, 256, 256}, {192, 64, 384},
                            {256, 64, 192}, {512, 128, 128}};
  if (!options_.quick) {
    shapes.insert(shapes.end(), {{512, 512, 512}, {1024, 1024, 256}, {64, 64, 1024},
                                 {1024, 128, 1024}, {352, 64, 64}, {128, 512, 64}});
  }
  for (const Shape& shape : shapes) {
    const Matrix<float> a = Matrix<float>::Random(shape.m, shape.k);
    const Matrix<float> b = Matrix<float>::Random(shape.k, shape.n);
    Matrix<float> c(shape.m, shape.n);
    MachineMeasurements::Product& product = *out_.add_products();
    product.set_m(static_cast<std::uint32_t>(shape.m));
    product.set_n(static_cast<std::uint32_t>(shape.n));
    product.set_k(static_cast<std::uint32_t>(shape.k));
    product.set_seconds(time_of([&] { c.noalias() = a * b; }, samples_, least_));
  }
}

void Bench::copy() {
  std::vector<char> from((options_.quick ? 32u : 128u) << 20, 1), to(from.size());
  const double seconds =
      time_of([&] { std::memcpy(to.data(), from.data(), from.size()); }, samples_, 0);
  out_.set_copy_rate(2 * static_cast<double>(from.size()) / seconds);
}

void Bench::update() {
  const auto device = make_cpu_device(1, 0.001);
  std::fill(device->gradient().begin(), device->gradient().end(), 0.01F);
  out_.set_update(time_of([&] { device->update(1, 1); }, samples_, least_) /
                  static_cast<double>(device->gradient().size()));
}

void Bench::codecs() {
  Rng rng(1);
  std::vector<float> values(kGradientValues);
  for (float& value : values) value = static_cast<float>(rng.uniform() - 0.5);
  const double bytes = static_cast<double>(values.size()) * sizeof(float);
  for (int i = 1; i <= static_cast<int>(Codec::power_sgd); ++i) {
    const auto codec = make_codec({.codec = static_cast<Codec>(i)});
    std::vector<std::byte> code(codec->encoded_size(values.size()));
    std::vector<float> decoded(values.size());
    CodecState state;
    CodecRate& rate = *out_.add_codecs();
    rate.set_codec(std::string(codec_name(codec->rule().codec)));
    rate.set_encode(bytes /
                    time_of([&] { codec->encode_values(values, state, code); }, samples_, least_));
    rate.set_decode(bytes /
                    time_of([&] { codec->decode_values(code, decoded); }, samples_, least_));
  }
}

/// Times exchanges as in a training step: all ranks arrive, sum, and receive the sum; then follows
/// a pause.
std::vector<double> Bench::exchange_times(Fabric& fabric, std::barrier<>& together,
                                          std::size_t values) {
  std::vector<float> gradient(values, 0.01F);
  FixedPointSum sum(values);
  sum.add(gradient);
  std::vector<double> times;
  for (int sample = 0; sample < 2 * samples_; ++sample) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    together.arrive_and_wait();
    const auto start = Clock::now();
    fabric.all_reduce_integers(sum.units());
    sum.store(gradient);
    times.push_back(to_seconds(since(start)));
  }
  return times;
}

void Bench::sums(std::uint32_t ranks) {
  const RunFolder folder;
  const Secrets secrets = make_secrets(true);  // live mode's default
  std::vector<std::string> addresses;
  std::vector<std::unique_ptr<GrpcFabric>> fabrics;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    addresses.push_back(fmt::format("unix:{}/{}", folder.path(), rank));
    fabrics.push_back(std::make_unique<GrpcFabric>(rank, ranks, addresses.back(), secrets));
  }
  for (auto& fabric : fabrics) fabric->connect_next(addresses);
  std::vector<std::size_t> sizes{1 << 9, 1 << 14, kGradientValues};
  if (!options_.quick) sizes.insert(sizes.end(), {1 << 16, 1 << 18, 1 << 20});
  for (const std::size_t values : sizes) {
    std::barrier<> together(static_cast<std::ptrdiff_t>(ranks));
    std::vector<std::vector<double>> times(ranks);
    {
      std::vector<std::jthread> threads;
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] {
          times[rank] = exchange_times(*fabrics[rank], together, values);
        });
      }
    }
    std::vector<double> slowest(times.front().size());
    for (std::size_t i = 0; i < slowest.size(); ++i) {
      for (const std::vector<double>& each : times) slowest[i] = std::max(slowest[i], each[i]);
    }
    MachineMeasurements::Sum& sum = *out_.add_sums();
    sum.set_ranks(ranks);
    sum.set_bytes(static_cast<double>(values) * sizeof(std::int64_t));
    sum.set_seconds(median(std::move(slowest)));
  }
}

}  // namespace

MachineMeasurements measure_machine(const MeasureOptions& options) { return Bench(options).run(); }

}  // namespace orrery::live
