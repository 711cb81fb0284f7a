// A fabric within one process: ranks are threads, links are queues. Sums like the real one: all
// ranks the same bits.
#pragma once

#include <barrier>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "live/fabric/fabric.hpp"

namespace orrery::live {

/// State that the ranks of one LoopFabric share.
struct LoopHub {
  explicit LoopHub(std::uint32_t count) : ranks(count), meeting(count) {}
  const std::uint32_t ranks;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::deque<std::byte>> links;
  std::vector<double> sums;
  std::vector<std::int64_t> units;
  std::barrier<> meeting;
  bool broken = false;
};

/// Fabric between threads of one process.
class LoopFabric : public Fabric {
 public:
  LoopFabric(LoopHub& hub, std::uint32_t rank) : hub_(hub), rank_(rank) {}
  std::uint32_t rank() const override { return rank_; }
  std::uint32_t ranks() const override { return hub_.ranks; }
  double round_trip() const override { return 0; }
  std::uint64_t bytes_sent() const override { return sent_; }
  CollectiveAlgorithm algorithm(double) const override { return CollectiveAlgorithm::ring; }

  void all_reduce(std::span<float> values) override { sum(values, hub_.sums); }
  void all_reduce_integers(std::span<std::int64_t> values) override { sum(values, hub_.units); }
  void send_to(std::uint32_t rank, std::span<const std::byte> bytes) override {
    const std::scoped_lock lock(hub_.mutex);
    if (hub_.broken) throw FabricBroken("cut");
    auto& link = hub_.links[{rank_, rank}];
    link.insert(link.end(), bytes.begin(), bytes.end());
    sent_ += bytes.size();
    hub_.changed.notify_all();
  }
  void receive_from(std::uint32_t rank, std::span<std::byte> bytes) override {
    std::unique_lock lock(hub_.mutex);
    auto& link = hub_.links[{rank, rank_}];
    hub_.changed.wait(lock, [&] { return hub_.broken || link.size() >= bytes.size(); });
    if (hub_.broken) throw FabricBroken("cut");
    std::copy_n(link.begin(), bytes.size(), bytes.begin());
    link.erase(link.begin(), link.begin() + static_cast<std::ptrdiff_t>(bytes.size()));
  }
  void abort(const std::string&) override {
    const std::scoped_lock lock(hub_.mutex);
    hub_.broken = true;
    hub_.changed.notify_all();
  }

 private:
  template <typename Value, typename Sum>
  void sum(std::span<Value> values, std::vector<Sum>& sums) {
    for (std::uint32_t turn = 0; turn < hub_.ranks; ++turn) {
      if (turn == rank_) {
        if (turn == 0) sums.assign(values.size(), 0);
        for (std::size_t i = 0; i < values.size(); ++i) sums[i] += values[i];
      }
      hub_.meeting.arrive_and_wait();
    }
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<Value>(sums[i]);
    hub_.meeting.arrive_and_wait();
    sent_ += 2 * values.size_bytes() * (hub_.ranks - 1) / hub_.ranks;
  }

  LoopHub& hub_;
  const std::uint32_t rank_;
  std::uint64_t sent_ = 0;
};

/// Runs `action(fabric)` on every rank at once.
inline void on_loop(LoopHub& hub, const std::function<void(LoopFabric&)>& action) {
  std::vector<std::jthread> threads;
  for (std::uint32_t rank = 0; rank < hub.ranks; ++rank) {
    threads.emplace_back([&hub, rank, &action] {
      LoopFabric fabric(hub, rank);
      action(fabric);
    });
  }
}

}  // namespace orrery::live
