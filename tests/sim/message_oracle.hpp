// The oracle for sim/estimates/collectives/collectives: the same algorithms message by message,
// each message a flow of its own along its route that starts when those before it have arrived.
// Slow and without any folding; for small clusters. Seconds and bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "sim/estimates/collectives/tree_schedule.hpp"
#include "sim/estimates/engine/engine.hpp"

namespace orrery::testing {

constexpr std::uint32_t kNoMessage = ~0u;

/// Numbers are places in the list, all before the message's own.
struct Message {
  GpuId from, to;
  double bytes = 0;
  std::vector<std::uint32_t> after = {};  ///< have arrived
  std::uint32_t behind = kNoMessage;      ///< has left the sender, to the same receiver
};
using Messages = std::vector<Message>;

/// Carries out messages, or wide flows, over all links of a cluster; each link has its full rate.
class Wire {
 public:
  Wire(estimates::Engine& engine, const Cluster& cluster) : engine_(engine), cluster_(cluster) {}

  double run(const Messages& messages) {
    return timed([&] {
      dependents_.assign(messages.size(), {});
      missing_.assign(messages.size(), 0);
      queued_.assign(messages.size(), kNoMessage);
      for (std::uint32_t i = 0; i < messages.size(); ++i) {
        missing_[i] = messages[i].after.size() + (messages[i].behind == kNoMessage ? 0 : 1);
        if (messages[i].behind != kNoMessage) queued_[messages[i].behind] = i;
        for (const std::uint32_t before : messages[i].after) dependents_[before].push_back(i);
      }
      for (std::uint32_t i = 0; i < messages.size(); ++i) {
        if (missing_[i] == 0) send_messages(messages, i);
      }
    });
  }

  /// The schedule as the simulator carries it out.
  double run(const estimates::CollectiveSchedule& schedule, double size) {
    return timed([&] { phase(schedule, size, 0); });
  }

  /// Adds a flow of `bytes` beside the next one, from its begin.
  void beside(GpuId from, GpuId to, double bytes) {
    beside_.push_back({from, to, bytes});
  }

 private:
  double timed(const std::function<void()>& start) {
    double began = 0;
    ended_ = 0;
    engine_.after(0, [&] {
      began = engine_.now();
      for (std::uint32_t link = 0; link < cluster_.links(); ++link) {
        engine_.set_bandwidth(link, cluster_.link({link}).bandwidth.value);
      }
      for (const Message& other : beside_) {
        engine_.flow(route(other.from, other.to), other.bytes, [](bool) {});
      }
      start();
    });
    engine_.run();
    return ended_ - began;
  }

  std::vector<std::uint32_t> route(GpuId from, GpuId to) const {
    std::vector<LinkId> links;
    cluster_.route(from, to, links);
    std::vector<std::uint32_t> slots;
    for (const LinkId link : links) slots.push_back(link.value);
    return slots;
  }

  void send_messages(const Messages& messages, std::uint32_t number) {
    const Message& message = messages[number];
    const double latency = cluster_.latency(message.from, message.to).value;
    engine_.flow(route(message.from, message.to), message.bytes,
                 [this, &messages, number, latency](bool) {
                   if (queued_[number] != kNoMessage) release(messages, queued_[number]);
                   engine_.after(latency,
                                 [this, &messages, number] { on_arrival(messages, number); });
                 });
  }
  void on_arrival(const Messages& messages, std::uint32_t number) {
    ended_ = engine_.now();
    for (const std::uint32_t next : dependents_[number]) release(messages, next);
  }
  void release(const Messages& messages, std::uint32_t number) {
    if (--missing_[number] == 0) send_messages(messages, number);
  }

  void phase(const estimates::CollectiveSchedule& schedule, double size, std::size_t number) {
    ended_ = engine_.now();
    if (number == schedule.phases.size()) return;
    const estimates::CollectivePhase& due = schedule.phases[number];
    std::vector<std::uint32_t> slots;
    for (const estimates::LinkLoad& load : due.links) {
      slots.insert(slots.end(), load.flows, load.link.value);
    }
    engine_.flow(slots, size * due.share, [this, &schedule, size, number](bool) {
      engine_.after(schedule.phases[number].latency.value,
                    [this, &schedule, size, number] { phase(schedule, size, number + 1); });
    });
  }

  estimates::Engine& engine_;
  const Cluster& cluster_;
  std::vector<std::vector<std::uint32_t>> dependents_;
  std::vector<std::size_t> missing_;
  std::vector<std::uint32_t> queued_;  ///< the message behind each
  Messages beside_;
  double ended_ = 0;
};

/// Steps of a ring: each part goes on when it has come.
inline void add_ring(Messages& out, const estimates::GpuGroup& ring, std::uint32_t steps,
                     double bytes) {
  const auto n = static_cast<std::uint32_t>(ring.size());
  const auto base = static_cast<std::uint32_t>(out.size());
  for (std::uint32_t step = 0; step < steps; ++step) {
    for (std::uint32_t i = 0; i < n; ++i) {
      Message message{ring[i], ring[(i + 1) % n], bytes};
      const std::uint32_t before = base + (step - 1) * n;
      if (step > 0) message.after = {before + (i + n - 1) % n};
      if (step > 0) message.behind = before + i;
      out.push_back(message);
    }
  }
}

inline Messages ring_messages(const Cluster& cluster, const estimates::GpuGroup& group, double size,
                              std::uint32_t passes) {
  Messages out;
  const auto n = static_cast<std::uint32_t>(group.size());
  const std::vector<estimates::GpuGroup> channels = estimates::ring_channels(cluster, group);
  for (const estimates::GpuGroup& channel : channels) {
    add_ring(out, channel, passes * (n - 1), size / n / static_cast<double>(channels.size()));
  }
  return out;
}

/// All-reduce in `pieces` along one tree of two: up when the children's have come, then down.
class TreeMessages {
 public:
  TreeMessages(Messages& out, const estimates::GpuGroup& group, bool second, double bytes)
      : out_(out),
        group_(group),
        bytes_(bytes),
        children_(group.size()),
        up_(group.size(), kNoMessage),
        down_(group.size(), kNoMessage) {
    const auto n = static_cast<std::uint32_t>(group.size());
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      parent_.push_back(estimates::tree_parent(n, rank, second));
      if (parent_[rank] < 0) root_ = rank;
      if (parent_[rank] >= 0) children_[static_cast<std::size_t>(parent_[rank])].push_back(rank);
    }
  }
  void add_piece() {
    climb_tree(root_);
    descend_tree(root_);
  }

 private:
  void add(std::uint32_t& last, GpuId from, GpuId to, std::vector<std::uint32_t> after) {
    out_.push_back({from, to, bytes_, std::move(after), last});
    last = static_cast<std::uint32_t>(out_.size()) - 1;
  }
  void climb_tree(std::uint32_t rank) {
    std::vector<std::uint32_t> after;
    for (const std::uint32_t child : children_[rank]) {
      climb_tree(child);
      after.push_back(up_[child]);
    }
    if (rank == root_) return;
    add(up_[rank], group_[rank], group_[static_cast<std::size_t>(parent_[rank])], after);
  }
  void descend_tree(std::uint32_t rank) {
    std::vector<std::uint32_t> after;
    if (rank != root_) after.push_back(down_[rank]);
    for (const std::uint32_t child : children_[rank]) {
      if (rank == root_) after.push_back(up_[child]);
    }
    for (const std::uint32_t child : children_[rank]) {
      add(down_[child], group_[rank], group_[child], after);
      descend_tree(child);
    }
  }

  Messages& out_;
  const estimates::GpuGroup& group_;
  const double bytes_;
  std::vector<std::int64_t> parent_;
  std::vector<std::vector<std::uint32_t>> children_;
  std::uint32_t root_ = 0;
  std::vector<std::uint32_t> up_, down_;  ///< last message between a rank and its parent
};

inline Messages tree_messages(const estimates::GpuGroup& group, double size, std::uint32_t pieces) {
  Messages out;
  TreeMessages first(out, group, false, size / 2 / pieces);
  TreeMessages second(out, group, true, size / 2 / pieces);
  for (std::uint32_t piece = 0; piece < pieces; ++piece) {
    first.add_piece();
    second.add_piece();
  }
  return out;
}

/// All-reduce by vector halving and doubling among a power of two of ranks.
inline Messages halving_doubling_messages(const estimates::GpuGroup& group, double size) {
  Messages out;
  const auto n = static_cast<std::uint32_t>(group.size());
  std::vector<std::uint32_t> distances;
  for (std::uint32_t d = 1; d < n; d *= 2) distances.push_back(d);
  for (std::uint32_t d = n / 2; d > 0; d /= 2) distances.push_back(d);
  for (std::size_t step = 0; step < distances.size(); ++step) {
    const auto before = static_cast<std::uint32_t>(out.size()) - n;
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::uint32_t to = i ^ distances[step];
      Message message{group[i], group[to], size / 2 / distances[step]};
      // The message waits for the last partner's message and for its own previous one.
      if (step > 0) message.after = {before + i, before + (i ^ distances[step - 1])};
      out.push_back(message);
    }
  }
  return out;
}

/// Everybody to everybody, `rounds` times; a round waits for all that came in the one before.
inline Messages direct_messages(const estimates::GpuGroup& group, double bytes,
                                std::uint32_t rounds) {
  Messages out;
  std::vector<std::vector<std::uint32_t>> came(group.size());
  for (std::uint32_t round = 0; round < rounds; ++round) {
    std::vector<std::vector<std::uint32_t>> coming(group.size());
    for (std::size_t from = 0; from < group.size(); ++from) {
      for (std::size_t to = 0; to < group.size(); ++to) {
        if (from == to) continue;
        coming[to].push_back(static_cast<std::uint32_t>(out.size()));
        out.push_back({group[from], group[to], bytes, came[from], kNoMessage});
      }
    }
    came = coming;
  }
  return out;
}

/// Puts `next` behind `out`, to start when `before` have arrived; says where they stand.
inline std::vector<std::uint32_t> append(Messages& out, const std::vector<Messages>& next,
                                         const std::vector<std::uint32_t>& before) {
  std::vector<std::uint32_t> made;
  for (const Messages& part : next) {
    const auto first = static_cast<std::uint32_t>(out.size());
    for (Message message : part) {
      for (std::uint32_t& own : message.after) own += first;
      if (message.behind != kNoMessage) message.behind += first;
      if (message.after.empty()) message.after = before;
      made.push_back(static_cast<std::uint32_t>(out.size()));
      out.push_back(message);
    }
  }
  return made;
}

/// The messages of `next`, all after those of `out`.
inline void follow(Messages& out, const std::vector<Messages>& next) {
  std::vector<std::uint32_t> all(out.size());
  std::iota(all.begin(), all.end(), 0u);
  append(out, next, all);
}

}  // namespace orrery::testing
