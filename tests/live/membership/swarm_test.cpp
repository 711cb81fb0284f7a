// The control core at its size: 1,024 agents against one coordinator, messages through a queue that
// delays, drops and doubles them, ten thousand faults. Ranks, nodes and racks die, links break,
// ranks fall silent for longer than the timeout, the coordinator dies. Nothing may be committed
// twice or applied by some only, and all have to be members again at the end.
//   ORRERY_SEED=N    another schedule
//   ORRERY_FAULTS=N  that many
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/random.hpp"
#include "live/membership/coordinator.hpp"
#include "live/membership/member.hpp"

namespace orrery::live::membership {
namespace {

constexpr std::uint32_t kRanks = 1024, kNode = 8, kRack = 64;
constexpr Nanos kTick = 20'000'000, kTimeout = 300'000'000;
constexpr int kBeatEvery = 3;  // ticks
constexpr int kLongest = 2;    // ticks that a message is under way
constexpr double kDrop = 0.01, kTwice = 0.01;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class Swarm {
 public:
  explicit Swarm(std::uint64_t seed) : rng_(Rng(seed).split_stream("swarm")) {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) start(rank);
    control([this] { begin(); });
  }

  void turn() {
    now_ += kTick;
    ++tick_;
    deliver();
    for (auto& node : nodes_) {
      if (!node) continue;
      act(*node);
      if ((tick_ + node->self.rank) % kBeatEvery == 0) say(*node);
    }
    revive();
    control([this] { coordinate(); });
  }

  /// Every rank is a member of an epoch that works.
  bool whole() const {
    return coordinator_ && coordinator_->is_running() && coordinator_->members().size() == kRanks;
  }
  Step committed() const { return finals_.size(); }
  std::uint64_t faults() const { return faults_; }
  double control_s() const { return control_s_; }
  std::uint64_t ticks() const { return tick_; }
  const std::string& wrong() const { return wrong_; }

  void strike() {
    const auto kind = rng_.below(7);
    const auto some = static_cast<std::uint32_t>(1 + rng_.below(2 * kRack));
    const auto first = static_cast<std::uint32_t>(rng_.below(kRanks));
    if (kind == 0) return kill_coordinator();
    for (std::uint32_t i = 0; i < some; ++i) {
      const auto any = static_cast<std::uint32_t>(rng_.below(kRanks));
      if (kind == 1) kill(any);
      if (kind == 2 && i < kNode) kill(first / kNode * kNode + i);
      if (kind == 3 && i < kRack) kill(first / kRack * kRack + i);
      if (kind == 4) cut(any);
      if (kind == 5) mute(any);
      if (kind == 6) kill((first + 2 * i) % kRanks);  // every other one
    }
  }

 private:
  struct Node {
    explicit Node(Seat seat) : self(seat), member(seat) {}
    Seat self;
    Member member;
    Task doing;
    std::uint64_t until = 0, mute_until = 0;  ///< ticks
    bool contributed = false;
    bool awake = true;  ///< there may be something else to do
    Step applied = 0;
    std::uint64_t chain = 0, held = 0;  ///< hash of its updates; epoch of the sum it holds
  };
  /// Common state of the ranks of an epoch.
  struct Epoch {
    std::uint32_t entered = 0, contributed = 0, size = 0;
    Step step = 0;
    bool broken = false;
  };
  using Message = std::variant<Status, Directive>;

  bool chance(double probability) { return rng_.uniform() < probability; }
  void fail(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
  }
  template <class Action>
  void control(const Action& action) {
    const double before = cpu_seconds();
    action();
    control_s_ += cpu_seconds() - before;
  }
  void begin() {
    coordinator_ = std::make_unique<Coordinator>(
        Coordinator::Options{.ranks = kRanks, .timeout = kTimeout}, journal_);
    sent_.clear();
  }
  void start(std::uint32_t rank) {
    nodes_[rank] = std::make_unique<Node>(Seat{rank, lives_[rank]++});
    say(*nodes_[rank]);
  }

  // ---- faults -----------------------------------------------------------------------------

  void kill(std::uint32_t rank) {
    if (!nodes_[rank]) return;
    ++faults_;
    leave(*nodes_[rank]);
    const Seat seat = nodes_[rank]->self;
    nodes_[rank].reset();
    back_.emplace(tick_ + 2 + rng_.below(10), rank);
    if (coordinator_ && chance(0.8)) {  // else its silence tells
      control([&] { coordinator_->record_exit(seat); });
    }
  }
  void cut(std::uint32_t rank) {
    if (!nodes_[rank]) return;
    ++faults_;
    break_links(*nodes_[rank]);
  }
  void mute(std::uint32_t rank) {
    if (!nodes_[rank]) return;
    ++faults_;
    nodes_[rank]->mute_until = tick_ + kTimeout / kTick + rng_.below(10);
  }
  void kill_coordinator() {
    ++faults_;
    coordinator_.reset();
    back_.emplace(tick_ + 2 + rng_.below(5), kRanks);
  }
  void revive() {
    while (!back_.empty() && back_.begin()->first <= tick_) {
      const std::uint32_t rank = back_.extract(back_.begin()).mapped();
      if (rank == kRanks) {
        control([this] { begin(); });
      } else if (!nodes_[rank]) {
        start(rank);
      }
    }
  }

  // ---- messages ---------------------------------------------------------------------------

  void post(Message message) {
    if (chance(kDrop)) return;
    const bool twice = chance(kTwice);
    if (twice) network_[slot()].push_back(message);
    network_[slot()].push_back(std::move(message));
  }
  std::size_t slot() { return (tick_ + 1 + rng_.below(kLongest)) % network_.size(); }
  void say(Node& node) {
    if (node.mute_until <= tick_) post(node.member.status());
  }
  void deliver() {
    std::vector<Message> due = std::exchange(network_[tick_ % network_.size()], {});
    for (std::size_t i = due.size(); i > 1; --i) std::swap(due[i - 1], due[rng_.below(i)]);
    for (const Message& message : due) {
      if (const auto* directive = std::get_if<Directive>(&message)) {
        Node* const node = nodes_[directive->to.rank].get();
        if (!node || node->mute_until > tick_) continue;
        if (node->member.on_directive(*directive)) leave(*node);
        node->awake = true;
      }
    }
    if (!coordinator_) return;
    control([&] {
      for (const Message& message : due) {
        const auto* status = std::get_if<Status>(&message);
        if (status) coordinator_->on_status(*status, now_);
      }
    });
  }

  // ---- the coordinator --------------------------------------------------------------------

  void coordinate() {
    if (!coordinator_) return;
    coordinator_->check_heartbeats(now_);
    if (coordinator_->is_ready()) coordinator_->start_step();
    for (const Happening& happening : coordinator_->drain_happenings()) {
      if (const auto* done = std::get_if<Committed>(&happening)) {
        if (done->step != finals_.size()) fail(fmt::format("step {} again", done->step));
        finals_.push_back(done->epoch);
      } else if (const auto* lost = std::get_if<Lost>(&happening); lost && lost->silent) {
        // A lost rank's process is ended, as by a controller.
        Node* const node = nodes_[lost->seat.rank].get();
        if (node && node->self == lost->seat) doomed_.push_back(lost->seat.rank);
      }
    }
    journal_ = coordinator_->journal();  // written before any message is sent
    for (const std::uint32_t rank : coordinator_->peers()) tell(rank);
    for (const std::uint32_t rank : std::exchange(doomed_, {})) {
      leave(*nodes_[rank]);
      nodes_[rank].reset();
      back_.emplace(tick_ + 2 + rng_.below(10), rank);
    }
  }
  /// Sends new directives, and old ones again from time to time, because messages may be dropped.
  void tell(std::uint32_t rank) {
    const auto directive = coordinator_->directive(rank);
    if (!directive) return;
    const auto number = std::tuple(directive->to, directive->epoch, directive->number);
    const auto [before, fresh] = sent_.try_emplace(rank, number);
    const bool again = (tick_ + rank) % kBeatEvery == 0;
    if (!fresh && before->second == number && !again) return;
    before->second = number;
    post(*directive);
  }

  // ---- a rank -----------------------------------------------------------------------------

  Epoch& epoch_of(const Node& node) { return epochs_[node.member.epoch()]; }
  /// It is gone for those with whom it is linked.
  void leave(Node& node) {
    epoch_of(node).broken = true;
    node.doing = {};
  }
  void break_links(Node& node) {
    epoch_of(node).broken = true;
    node.member.mark_broken(node.member.epoch());
    node.doing = {};
    node.awake = true;
    say(node);
  }
  void act(Node& node) {
    if (std::exchange(node.awake, false)) look(node);
    const Task& task = node.doing;
    if (tick_ < node.until) return;
    switch (task.kind) {
      case Task::Kind::none: return;
      case Task::Kind::apply: apply(node); break;
      case Task::Kind::enter: enter(node, task); break;
      case Task::Kind::link:
        if (!link(node, task)) return;
        break;
      case Task::Kind::work:
        if (!work(node, task)) return;
        break;
    }
    node.awake = true;
    say(node);
  }
  void look(Node& node) {
    Task task = node.member.task();
    if (task.kind == node.doing.kind && task.epoch == node.doing.epoch &&
        task.step == node.doing.step) {
      return;
    }
    node.doing = std::move(task);
    node.until = tick_ + rng_.below(3);
    node.contributed = false;
  }
  void enter(Node& node, const Task& task) {
    epoch_of(node).broken = true;  // link of the previous epoch
    node.held = 0;
    node.member.mark_listening(task.epoch);
    ++epoch_of(node).entered;
  }
  bool link(Node& node, const Task& task) {
    Epoch& epoch = epoch_of(node);
    if (epoch.broken) return node.member.mark_broken(task.epoch), true;
    if (epoch.entered < task.members.size()) return false;
    epoch.size = static_cast<std::uint32_t>(task.members.size());
    const Node* const source = nodes_[task.source].get();
    if (task.share && !node.member.has_whole_state() && source) {
      node.applied = source->applied;
      node.chain = source->chain;
    }
    if (node.applied != task.step) fail("the source does not hold the state");
    node.member.mark_linked(task.epoch);
    return true;
  }
  bool work(Node& node, const Task& task) {
    Epoch& epoch = epoch_of(node);
    if (!std::exchange(node.contributed, true)) {
      if (epoch.step != task.step) epoch.contributed = 0;
      epoch.step = task.step;
      ++epoch.contributed;
    }
    const bool done = epoch.step == task.step && epoch.contributed == epoch.size;
    if (epoch.broken && (!done || chance(0.5))) return node.member.mark_broken(task.epoch), true;
    if (!done) return false;
    node.held = task.epoch;
    node.member.mark_reduced(task.epoch, task.step);
    return true;
  }
  void apply(Node& node) {
    if (node.applied >= finals_.size()) return fail("a step is applied uncommitted");
    if (finals_[node.applied] != node.held) fail("a step of a revoked epoch is applied");
    node.chain = node.chain * 0x9e3779b97f4a7c15 + node.held;
    const auto [first, fresh] = chains_.emplace(++node.applied, node.chain);
    if (!fresh && first->second != node.chain) fail("two ranks hold other updates");
    node.held = 0;
    node.member.mark_applied();
  }

  Rng rng_;
  Nanos now_ = 0;
  std::uint64_t tick_ = 0, faults_ = 0;
  double control_s_ = 0;
  std::unique_ptr<Coordinator> coordinator_;
  Journal journal_;
  std::vector<std::unique_ptr<Node>> nodes_{kRanks};
  std::vector<std::uint32_t> lives_ = std::vector<std::uint32_t>(kRanks, 0);
  std::vector<std::vector<Message>> network_{kLongest + 2};
  std::map<std::uint32_t, std::tuple<Seat, std::uint64_t, std::uint64_t>> sent_;
  /// keyed by tick: ranks; kRanks: the coordinator
  std::multimap<std::uint64_t, std::uint32_t> back_;
  std::vector<std::uint32_t> doomed_;
  std::map<std::uint64_t, Epoch> epochs_;
  std::vector<std::uint64_t> finals_;  ///< epoch of every committed step
  std::map<Step, std::uint64_t> chains_;
  std::string wrong_;
};

std::uint64_t given(const char* name, std::uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value ? std::strtoull(value, nullptr, 10) : otherwise;
}

/// Strikes as soon as steps are done again, often before all are back; gives them time to come back
/// now and then.
TEST(Swarm, AThousandRanksAndTenThousandFaults) {
  constexpr std::uint64_t kPatience = 2000;  // ticks without a step
  const std::uint64_t seed = given("ORRERY_SEED", 1), wanted = given("ORRERY_FAULTS", 10'000);
  SCOPED_TRACE(fmt::format("ORRERY_SEED={}", seed));
  Swarm swarm(seed);
  Rng dice = Rng(seed).split_stream("dice");
  Step before = 0;
  std::uint64_t since = 0;
  bool wait_for_all = true;
  while (swarm.wrong().empty() && swarm.ticks() - since < kPatience) {
    swarm.turn();
    const bool on = swarm.committed() > before && (!wait_for_all || swarm.whole());
    if (!on) continue;
    if (swarm.faults() >= wanted && swarm.whole()) break;
    before = swarm.committed();
    since = swarm.ticks();
    wait_for_all = swarm.faults() >= wanted || dice.below(4) == 0;
    if (swarm.faults() < wanted) swarm.strike();
  }
  EXPECT_EQ(swarm.wrong(), "");
  EXPECT_TRUE(swarm.whole()) << "after " << swarm.ticks() << " ticks";
  EXPECT_GE(swarm.faults(), wanted);
  EXPECT_GT(swarm.committed(), 100u);
  const double seconds = static_cast<double>(swarm.ticks()) * 1e-9 * static_cast<double>(kTick);
  fmt::print(
      "{} ranks, {} faults, {} steps in {:.0f} s of their time; the coordinator took "
      "{:.3f} ms of CPU a second and rank\n",
      kRanks, swarm.faults(), swarm.committed(), seconds,
      1e3 * swarm.control_s() / seconds / kRanks);
}

}  // namespace
}  // namespace orrery::live::membership
