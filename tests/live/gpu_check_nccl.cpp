// The sections of gpu_check with NCCL. Ranks are processes of their own; the section's process
// hands out ids and orders over their channels, and notices that one is gone: NCCL need not.
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <thread>

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/process.hpp"
#include "live/cuda/nccl_library.hpp"
#include "live/fabric/nccl_fabric.hpp"
#include "live/machine/cuda_module.hpp"
#include "tests/live/gpu_check.hpp"

namespace orrery::live::gpu_check {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
using std::chrono::milliseconds;

constexpr std::size_t kOverheadBytes = std::size_t{64} << 20;
constexpr int kPairs = 40;
constexpr double kMostOverhead = 1.02;
constexpr int kSharedCtas = 4;  ///< limit of a rank that shares its GPU

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

const OrreryCudaTable& module() {
  std::string reason;
  const OrreryCudaTable* const table = find_nccl(cuda_module_path(), reason);
  if (!table) throw Missing{reason};
  return *table;
}

void check(cudaError_t status) {
  if (status != cudaSuccess) throw Error(ErrorKind::environment, cudaGetErrorString(status));
}

class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes) {
    check(cudaMalloc(&memory_, bytes));
    check(cudaMemset(memory_, 0, bytes));
    check(cudaDeviceSynchronize());
  }
  ~DeviceMemory() { cudaFree(memory_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  std::span<float> floats(std::size_t count) { return {static_cast<float*>(memory_), count}; }

 private:
  void* memory_ = nullptr;
};

/// Sums of floats and whole numbers, in host and in device memory, and messages between all.
bool exchanges_right(Fabric& fabric) {
  const auto ranks = static_cast<float>(fabric.ranks());
  const float sum = ranks * (ranks + 1) / 2, own = static_cast<float>(fabric.rank() + 1);
  std::vector<float> values(1'000'003, own);
  fabric.all_reduce(values);
  bool good = std::all_of(values.begin(), values.end(), [&](float v) { return v == sum; });
  std::vector<std::int64_t> units(1000, (std::int64_t{1} << 40) + fabric.rank());
  fabric.all_reduce_integers(units);
  const auto all = static_cast<std::int64_t>(fabric.ranks());
  const std::int64_t expected = all * (std::int64_t{1} << 40) + all * (all - 1) / 2;
  good &= units == std::vector<std::int64_t>(1000, expected);
  DeviceMemory memory(4 * 1000);
  std::vector<float> there(1000, own);
  check(cudaMemcpy(memory.floats(1000).data(), there.data(), 4000, cudaMemcpyHostToDevice));
  fabric.all_reduce(memory.floats(1000));
  check(cudaMemcpy(there.data(), memory.floats(1000).data(), 4000, cudaMemcpyDeviceToHost));
  good &= there == std::vector<float>(1000, sum);
  for (std::uint32_t to = 0; to < fabric.ranks(); ++to) {
    const std::vector<std::byte> bytes(100'000, std::byte(fabric.rank() + 1));
    if (to != fabric.rank()) fabric.send_to(to, bytes);
  }
  for (std::uint32_t from = 0; from < fabric.ranks(); ++from) {
    std::vector<std::byte> bytes(100'000);
    if (from == fabric.rank()) continue;
    fabric.receive_from(from, bytes);
    good &= bytes == std::vector<std::byte>(100'000, std::byte(from + 1));
  }
  return good;
}

/// Our all-reduce and NCCL's own, called as a program without us would, in turns: pairs of seconds.
class Direct {
 public:
  Direct(const std::string& id_text, int rank, int ranks, int max_ctas) : nccl_("libnccl.so.2") {
    ncclUniqueId id;
    for (std::size_t i = 0; i < sizeof id; ++i) {
      id.internal[i] = static_cast<char>(std::stoi(id_text.substr(2 * i, 2), nullptr, 16));
    }
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (max_ctas > 0) config.maxCTAs = max_ctas;
    must(nccl_.join(&comm_, ranks, id, rank, &config));
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~Direct() {
    if (comm_) nccl_.abort(comm_);
    cudaStreamDestroy(stream_);
  }
  void all_reduce(std::span<float> values) {
    must(nccl_.all_reduce(values.data(), values.data(), values.size(), ncclFloat32, ncclSum, comm_,
                          stream_));
    check(cudaStreamSynchronize(stream_));
  }

 private:
  void must(ncclResult_t result) {
    if (result != ncclSuccess) throw Error(ErrorKind::environment, nccl_.describe(result));
  }
  const gpu::NcclLibrary nccl_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

Json time_pairs(NcclFabric& fabric, Direct& direct) {
  DeviceMemory memory(kOverheadBytes);
  const std::span<float> values = memory.floats(kOverheadBytes / sizeof(float));
  Json pairs = Json::array();
  const auto timed = [](const auto& work) {
    const auto start = Clock::now();
    work();
    return seconds_since(start);
  };
  for (int i = -3; i < kPairs; ++i) {
    double ours = 0, theirs = 0;
    const bool first = i % 2 == 0;
    if (first) ours = timed([&] { fabric.all_reduce(values); });
    theirs = timed([&] { direct.all_reduce(values); });
    if (!first) ours = timed([&] { fabric.all_reduce(values); });
    if (i >= 0) pairs.push_back({ours, theirs});
  }
  return pairs;
}

// ---- a rank ----------------------------------------------------------------------------------

/// Rank that answers the orders of its section until the channel ends. An order names the
/// operation: open, connect {rank, addresses}, exchange, loop, pairs {id}.
class Rank {
 public:
  explicit Rank(const Json& seat)
      : options_{.device = seat["device"], .max_ctas = seat["max_ctas"]}, module_(module()) {}

  Json answer(const Json& order) {
    const std::string what = order["do"];
    if (what == "open") {
      fabric_ = std::make_unique<NcclFabric>(module_, options_);
      return {{"address", fabric_->address()}};
    }
    if (what == "connect") {
      fabric_->connect_ranks(order["rank"], order["addresses"].get<std::vector<std::string>>());
      return {{"ok", true}};
    }
    if (what == "exchange") return {{"ok", exchanges_right(*fabric_)}};
    if (what == "pairs") {
      check(cudaSetDevice(options_.device));
      Direct direct(order["id"], static_cast<int>(fabric_->rank()),
                    static_cast<int>(fabric_->ranks()), options_.max_ctas);
      return {{"pairs", time_pairs(*fabric_, direct)}};
    }
    return {{"error", "no order '" + what + "'"}};
  }

  /// All-reduces without end, until told to stop by the next message.
  Json loop() {
    std::jthread listener([this] {
      read_message(kChildDescriptor);
      fabric_->abort("a rank is gone");
    });
    std::vector<float> values(1 << 16, 1);
    try {
      for (;;) fabric_->all_reduce(values);
    } catch (const FabricBroken& broken) {
      return {{"broken", broken.what()}, {"at", seconds_since({})}};
    }
  }

 private:
  NcclOptions options_;
  const OrreryCudaTable& module_;
  std::unique_ptr<NcclFabric> fabric_;
};

bool say(int channel, const Json& json) { return write_message(channel, json.dump()); }

std::optional<Json> hear(int channel) {
  const auto text = read_message(channel);
  if (!text) return std::nullopt;
  return Json::parse(*text);
}

// ---- the section's side ----------------------------------------------------------------------

class Ranks {
 public:
  explicit Ranks(std::uint32_t count) {
    const CudaProbe probe = probe_cuda();
    if (!probe.reason.empty()) throw Missing{probe.reason};
    module();
    shared_ = probe.devices < count;
    for (std::uint32_t rank = 0; rank < count; ++rank) {
      auto& child = children_.emplace_back(
          std::make_unique<ChildProcess>(sibling_program("gpu_check"),
                                         std::vector<std::string>{"rank"}));
      // Ranks that share a GPU are one to NCCL each on a node of its own, which it allows.
      say(child->channel(), {{"device", rank % probe.devices},
                             {"max_ctas", shared_ ? kSharedCtas : 0},
                             {"host_id", shared_ ? fmt::format("orrery-{}", rank) : ""}});
    }
    for (std::uint32_t rank = 0; rank < count; ++rank) alive_.push_back(rank);
  }
  bool shared() const { return shared_; }
  void order(const Json& what) {
    for (const std::uint32_t rank : alive_) say(children_[rank]->channel(), what);
  }
  /// Returns the answers of all living ranks, in their order. Throws an error that a rank reports.
  std::vector<Json> answers() {
    std::vector<Json> all;
    for (const std::uint32_t rank : alive_) {
      const auto said = hear(children_[rank]->channel());
      if (!said) throw Error(ErrorKind::environment, fmt::format("rank {} ended", rank));
      if (said->contains("error")) {
        throw Error(ErrorKind::environment,
                    fmt::format("rank {}: {}", rank, (*said)["error"].get<std::string>()));
      }
      all.push_back(*said);
    }
    return all;
  }
  /// Everybody alive joins a new communicator; the seconds it took.
  double connect() {
    const auto start = Clock::now();
    order({{"do", "open"}});
    Json addresses = Json::array();
    for (const Json& each : answers()) addresses.push_back(each["address"]);
    for (std::size_t place = 0; place < alive_.size(); ++place) {
      say(children_[alive_[place]]->channel(),
          {{"do", "connect"}, {"rank", place}, {"addresses", addresses}});
    }
    answers();
    return seconds_since(start);
  }
  bool all_ok(const Json& what) {
    order(what);
    const auto said = answers();
    return std::all_of(said.begin(), said.end(), [](const Json& each) { return each["ok"]; });
  }
  /// Kills the rank at this place with signal 9 and waits until it is gone.
  void kill(std::size_t place) {
    const std::uint32_t rank = alive_[place];
    children_[rank]->signal(SIGKILL);
    children_[rank]->wait();
    alive_.erase(alive_.begin() + static_cast<std::ptrdiff_t>(place));
  }

 private:
  std::vector<std::unique_ptr<ChildProcess>> children_;
  std::vector<std::uint32_t> alive_;
  bool shared_ = false;
};

std::string fresh_id(const OrreryCudaTable& table) {
  std::uint8_t id[ORRERY_NCCL_ID_SIZE];
  if (table.nccl_make_id(id) != 0) throw Error(ErrorKind::environment, table.why());
  std::string text;
  for (const std::uint8_t byte : id) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace

int serve_rank(const std::string&) {
  const auto seat = hear(kChildDescriptor);
  if (!seat) return static_cast<int>(ErrorKind::usage);
  // Must precede the first thread of NCCL or CUDA.
  const std::string host_id = (*seat)["host_id"];
  if (!host_id.empty()) {
    setenv("NCCL_HOSTID", host_id.c_str(), 1);
    setenv("NCCL_SOCKET_IFNAME", "lo", 0);
  }
  std::optional<Rank> rank;
  while (const auto order = hear(kChildDescriptor)) {
    Json said;
    try {
      if (!rank) rank.emplace(*seat);
      said = (*order)["do"] == "loop" ? rank->loop() : rank->answer(*order);
    } catch (const Missing& missing) {
      said = {{"error", missing.reason}};
    } catch (const std::exception& error) {
      said = {{"error", error.what()}};
    }
    if (!say(kChildDescriptor, said)) break;
  }
  return 0;
}

bool run_one_rank() {
  const OrreryCudaTable& table = module();
  NcclFabric fabric(table, NcclOptions{});
  const auto start = Clock::now();
  fabric.connect_ranks(0, {fabric.address()});
  fmt::print("joined in {:.0f} ms\n", 1e3 * seconds_since(start));
  const bool good = exchanges_right(fabric);
  fmt::print("sums of floats and whole numbers, in host and device memory: {}\n",
             good ? "right" : "WRONG");
  return good;
}

bool run_ranks() {
  bool good = true;
  for (const std::uint32_t count : {2u, 3u, 4u}) {
    Ranks ranks(count);
    const double joined = ranks.connect();
    const bool right = ranks.all_ok({{"do", "exchange"}});
    fmt::print("{} ranks{}: joined in {:.0f} ms; sums and messages: {}\n", count,
               ranks.shared() ? " on shared GPUs" : "", 1e3 * joined, right ? "right" : "WRONG");
    good &= right;
  }
  return good;
}

/// A rank dies in the middle of all-reduces; the others join anew, as in a live run's next epoch.
bool join_after_kill() {
  Ranks ranks(4);
  ranks.connect();
  bool good = ranks.all_ok({{"do", "exchange"}});
  ranks.order({{"do", "loop"}});
  std::this_thread::sleep_for(milliseconds(500));
  ranks.kill(1);
  const auto killed = Clock::now();
  ranks.order({{"do", "stop"}});
  for (const Json& each : ranks.answers()) {
    fmt::print("a survivor's all-reduce ended: {}\n", each["broken"].get<std::string>());
  }
  const double known = seconds_since(killed);
  ranks.connect();
  const double whole = seconds_since(killed);
  good &= ranks.all_ok({{"do", "exchange"}});
  fmt::print("kill -9: all awake after {:.0f} ms, joined anew after {:.0f} ms; sums and messages "
             "of the rest: {}\n",
             1e3 * known, 1e3 * whole, good ? "right" : "WRONG");
  return good;
}

bool measure_overhead() {
  Ranks ranks(2);
  ranks.connect();
  ranks.order({{"do", "pairs"}, {"id", fresh_id(module())}});
  const std::vector<Json> said = ranks.answers();
  std::vector<double> ratios, direct;
  for (const Json& pair : said.at(0)["pairs"]) {
    const double ours = pair[0], theirs = pair[1];
    ratios.push_back(ours / theirs);
    direct.push_back(theirs);
  }
  const Median ratio = median_of(ratios), alone = median_of(direct);
  fmt::print("2 ranks{}, {} MiB in device memory, {} pairs in turns: NCCL directly {:.3f} ms "
             "({:.3f} to {:.3f}); ours / NCCL {:.4f}, 95% interval {:.4f} to {:.4f}, at most "
             "{:.2f} wanted\n",
             ranks.shared() ? " on one GPU (sockets on lo)" : "", kOverheadBytes >> 20,
             ratios.size(), 1e3 * alone.value, 1e3 * alone.low, 1e3 * alone.high, ratio.value,
             ratio.low, ratio.high, kMostOverhead);
  const Verdict verdict = judge(ratio, kMostOverhead);
  if (verdict == Verdict::noisy) fmt::print("too noisy: this is not passed\n");
  return verdict == Verdict::within;
}

}  // namespace orrery::live::gpu_check
