// A model of a run under the control core: a network that drops, delays, doubles and reorders,
// ranks and a coordinator that are killed and come back, work that takes its time. Checks at every
// event that nothing is committed twice or by some only. Everything follows from the seed.
#pragma once

#include <algorithm>
#include <bitset>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "core/random.hpp"
#include "live/membership/coordinator.hpp"
#include "live/membership/member.hpp"

namespace orrery::live::membership {

/// Probabilities of the network's and the processes' faults.
struct Adversity {
  double drop = 0, twice = 0, kill = 0, coordinator_kill = 0, cut = 0, mute = 0;
  double stop = 0;          ///< rate of stops of one rank, half as often of all
  Nanos delay = 1'000'000;  ///< longest
  /// The coordinator's word that a silent rank is lost kills it, and every exit is reported, as on
  /// one machine.
  bool kills_silent = false;
  bool sharded = false;  ///< each rank holds its part of the state and the copy of another part
};

/// Returns the keepers of the copies of a sharded state: each member keeps the copy of the member
/// half the list before it.
inline std::vector<std::uint32_t> half_the_list_on(const std::vector<Seat>& members) {
  const auto count = static_cast<std::uint32_t>(members.size());
  std::vector<std::uint32_t> keepers;
  for (std::uint32_t i = 0; i < count; ++i) keepers.push_back((i + count / 2) % count);
  return keepers;
}

/// Parts of a sharded state that a rank holds, cut so finely that each member of up to five has a
/// whole number of them.
using Parts = std::bitset<60>;

/// Returns the parts that `seat` holds once `members` have shared the state; none for others.
inline Parts share_of(const std::vector<Seat>& members, const Seat& seat) {
  const std::vector<std::uint32_t> keepers = half_the_list_on(members);
  const std::size_t size = Parts().size() / members.size();
  Parts share;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i] != seat && members[keepers[i]] != seat) continue;
    for (std::size_t at = i * size; at < (i + 1) * size; ++at) share.set(at);
  }
  return share;
}

/// Model of a run under the control core.
class Model {
 public:
  static constexpr Nanos kTick = 10'000'000;
  static constexpr Nanos kMuted = 400'000'000;  ///< at most, beyond the timeout

  Model(std::uint64_t seed, std::uint32_t ranks, Adversity adversity)
      : ranks_(ranks), adversity_(adversity), rng_(Rng(seed).split_stream("model")) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) start(rank, 0);
    coordinator_ = make_coordinator();
  }

  void end_adversity() {
    adversity_ = Adversity{.kills_silent = adversity_.kills_silent, .sharded = adversity_.sharded};
  }
  /// Kills the process of a rank; a successor without the state starts a little later.
  void kill_rank(std::uint32_t rank) {
    const Seat seat = nodes_.at(rank)->self;
    nodes_.erase(rank);
    ++kills_;
    const bool reported = adversity_.kills_silent || chance(0.5);  // else its silence tells
    if (coordinator_ && reported) coordinator_->record_exit(seat);
    if (!adversity_.kills_silent) return;
    std::erase_if(network_, [&seat](const Message& message) {  // its connection is closed
      const auto* status = std::get_if<Status>(&message.what);
      return status != nullptr && status->from == seat;
    });
  }
  /// Stops the process of a rank, which then goes on as if nothing had happened.
  void stop_rank(std::uint32_t rank, Nanos span) { nodes_.at(rank)->stopped_until = now_ + span; }
  void pass_time(Nanos span) {
    for (const Nanos end = now_ + span; now_ < end && wrong_.empty(); now_ += kTick) run_turn();
  }
  /// Starts whoever is dead.
  void revive_dead() {
    if (!coordinator_) coordinator_ = make_coordinator();
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      if (!nodes_.contains(rank)) start(rank, lives_[rank] + 1);
    }
  }

  const std::string& wrong() const { return wrong_; }
  Step committed_steps() const { return static_cast<Step>(finals_.size()); }
  std::uint64_t kills() const { return kills_; }
  std::size_t decisions() const { return decided_.size(); }
  std::size_t members() const { return coordinator_ ? coordinator_->members().size() : 0; }

 private:
  /// Origin of an update: equal for all ranks that apply the step.
  struct Origin {
    std::uint64_t epoch = 0, decided = 0;
    friend bool operator==(const Origin&, const Origin&) = default;
  };
  struct Node {
    explicit Node(Seat seat) : self(seat), member(seat) {}
    Seat self;
    Member member;
    Task doing;
    Nanos until = 0;         ///< end of the present task
    Nanos mute_until = 0;    ///< cut off from the coordinator, both ways
    Nanos stopped_until = 0;   ///< does nothing, and its messages wait
    bool contributed = false;  ///< contribution to the sum of its current step
    std::vector<Origin> history;  ///< indexed by applied step
    Origin held;
    /// Parts of a sharded state: held, and held by formed epochs; both since the newest update.
    Parts parts = Parts().set(), formed_parts;
  };
  struct Message {
    Nanos at;
    std::variant<Status, Directive> what;
  };

  bool chance(double probability) { return rng_.uniform() < probability; }
  Nanos span(Nanos most) { return static_cast<Nanos>(rng_.uniform() * static_cast<double>(most)); }
  void record_failure(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
  }
  std::unique_ptr<Coordinator> make_coordinator() {
    Coordinator::Options options{.ranks = ranks_};
    if (adversity_.sharded) options.keepers = half_the_list_on;
    return std::make_unique<Coordinator>(options, journal_);
  }
  void start(std::uint32_t rank, std::uint32_t life) {
    lives_[rank] = life;
    nodes_.emplace(rank, std::make_unique<Node>(Seat{rank, life}));
  }

  void post_message(const std::variant<Status, Directive>& what) {
    if (chance(adversity_.drop)) return;
    const int copies = chance(adversity_.twice) ? 2 : 1;
    for (int i = 0; i < copies; ++i) {
      network_.push_back({now_ + span(std::max<Nanos>(adversity_.delay, 1)), what});
    }
  }

  void run_turn() {
    strike_rank();
    deliver_message();
    for (auto& [rank, node] : nodes_) {
      if (node->stopped_until > now_) continue;
      run_task(*node);
      if (chance(adversity_.mute)) node->mute_until = now_ + kNanosPerSecond + span(kMuted);
      if (node->mute_until <= now_) post_message(node->member.status());
    }
    if (coordinator_) run_coordinator();
  }

  void strike_rank() {
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      if (nodes_.contains(rank)) {
        // The last holders of the state are spared: nothing could go on without them.
        if (nodes_.size() > ranks_ / 2 + 1 && !is_spared(rank) && chance(adversity_.kill))
          kill_rank(rank);
      } else if (chance(0.02)) {
        start(rank, lives_[rank] + 1);
      }
    }
    if (coordinator_ && chance(adversity_.coordinator_kill)) {
      coordinator_.reset();
    } else if (!coordinator_ && chance(0.1)) {
      coordinator_ = make_coordinator();
    }
    stop_ranks();
    if (chance(adversity_.cut) && !nodes_.empty()) {
      Node& node = *std::next(nodes_.begin(), static_cast<std::ptrdiff_t>(
                                                  span(static_cast<Nanos>(nodes_.size()))))->second;
      node.member.mark_broken(node.member.epoch());
      node.doing = {};
    }
  }
  void stop_ranks() {
    if (adversity_.stop == 0) return;
    const bool all = chance(adversity_.stop / 2);
    for (auto& [rank, node] : nodes_) {
      if (all || chance(adversity_.stop)) node->stopped_until = now_ + span(2 * kNanosPerSecond);
    }
  }
  /// A rank that holds the sum of the last final step is as good as one that has applied it.
  bool is_holder(const Node& node) const {
    const std::size_t has = node.history.size() + (node.held.epoch > 0 ? 1 : 0);
    return node.history.size() == finals_.size() || has > finals_.size();
  }
  /// Whether the other ranks do not hold the state, as far as the coordinator can know.
  bool is_spared(std::uint32_t spared) const {
    std::size_t holders = 0;
    Parts parts;
    for (const auto& [rank, node] : nodes_) {
      if (!is_holder(*node)) continue;
      ++holders;
      if (!adversity_.sharded || rank == spared) continue;
      const bool pending = node->history.size() < finals_.size();
      parts |= pending ? share_of(agreed_.at(node->member.epoch()), node->self)
                       : node->formed_parts;
    }
    return adversity_.sharded ? !parts.all() : holders <= 1;
  }

  void deliver_message() {
    std::vector<Message> due;
    std::erase_if(network_, [&](const Message& message) {
      if (message.at > now_ || is_stopped(message)) return false;
      due.push_back(message);
      return true;
    });
    for (std::size_t i = due.size(); i > 1; --i) {
      std::swap(due[i - 1], due[static_cast<std::size_t>(span(static_cast<Nanos>(i)))]);
    }
    for (const Message& message : due) {
      if (const auto* status = std::get_if<Status>(&message.what)) {
        if (coordinator_) coordinator_->on_status(*status, now_);
      } else if (const auto found = nodes_.find(std::get<Directive>(message.what).to.rank);
                 found != nodes_.end() && found->second->mute_until <= now_) {
        Node& node = *found->second;
        if (node.member.on_directive(std::get<Directive>(message.what))) node.doing = {};
      }
    }
  }

  bool is_stopped(const Message& message) const {
    const auto* directive = std::get_if<Directive>(&message.what);
    const auto found = directive ? nodes_.find(directive->to.rank) : nodes_.end();
    return found != nodes_.end() && found->second->stopped_until > now_;
  }

  void run_coordinator() {
    coordinator_->check_heartbeats(now_);
    for (const Seat& seat : coordinator_->heard_again()) {
      coordinator_->readmit_rank(seat.rank, now_);
    }
    if (coordinator_->is_ready() && chance(0.8)) coordinator_->start_step();
    if (coordinator_->is_running() && chance(0.05)) coordinator_->propose_decision(++proposals_);
    for (const Happening& happening : coordinator_->drain_happenings()) record_happening(happening);
    journal_ = coordinator_->journal();  // written before any message is sent
    for (const std::uint32_t rank : coordinator_->peers()) {
      if (const auto directive = coordinator_->directive(rank)) post_message(*directive);
    }
  }
  void record_happening(const Happening& happening) {
    if (const auto* done = std::get_if<Committed>(&happening)) {
      if (done->step != finals_.size())
        record_failure(fmt::format("step {} is committed again", done->step));
      finals_.push_back(done->epoch);
    } else if (const auto* formed = std::get_if<Formed>(&happening)) {
      record_formed(formed->members);
    } else if (const auto* decided = std::get_if<Decided>(&happening)) {
      decided_.insert(decided->number);
    } else if (const auto* lost = std::get_if<Lost>(&happening)) {
      const auto found = nodes_.find(lost->seat.rank);
      const bool there = found != nodes_.end() && found->second->self == lost->seat;
      if (there && lost->silent && adversity_.kills_silent) kill_rank(lost->seat.rank);
    } else if (const auto* aborted = std::get_if<Aborted>(&happening)) {
      if (decided_.contains(aborted->number)) record_failure("a decision in force is aborted");
    }  // Stuck is no fault: who holds the state is cut off, and will be back
  }

  void record_formed(const std::vector<Seat>& members) {
    for (const Seat& seat : members) {
      const auto found = nodes_.find(seat.rank);
      if (found == nodes_.end() || found->second->self != seat) continue;
      found->second->formed_parts |= share_of(members, seat);
    }
  }

  // ---- a rank -----------------------------------------------------------------------------

  void run_task(Node& node) {
    const Task task = node.member.task();
    if (task.kind != node.doing.kind || task.epoch != node.doing.epoch ||
        task.step != node.doing.step) {
      node.doing = task;
      node.until = now_ + span(3 * kTick);
      node.contributed = false;
    }
    if (now_ < node.until) return;
    switch (task.kind) {
      case Task::Kind::none: return;
      case Task::Kind::apply: return apply(node);
      case Task::Kind::enter:
        node.held = {};
        node.member.mark_listening(task.epoch);
        return;
      case Task::Kind::link: return link(node, task);
      case Task::Kind::work: return work_on_step(node, task);
    }
  }

  void apply(Node& node) {
    const Step step = node.history.size();
    if (step >= finals_.size())
      return record_failure(fmt::format("step {} is applied uncommitted", step));
    if (finals_[step] != node.held.epoch)
      return record_failure("a step of a revoked epoch is applied");
    const auto [first, fresh] = origins_.emplace(step, node.held);
    if (!fresh && first->second != node.held) record_failure("a decision is applied by some only");
    node.history.push_back(node.held);
    node.held = {};
    if (adversity_.sharded) {
      node.parts = share_of(agreed_.at(node.member.epoch()), node.self);
      node.formed_parts = node.parts;
    }
    node.member.mark_applied();
  }

  void link(Node& node, const Task& task) {
    const auto [first, fresh] = agreed_.emplace(task.epoch, task.members);
    if (!fresh && first->second != task.members) record_failure("two memberships in one epoch");
    const auto source = nodes_.find(task.source);
    const bool there = source != nodes_.end() && source->second->member.epoch() == task.epoch;
    if (!there) return node.member.mark_broken(task.epoch);
    if (adversity_.sharded && !deal_state(node, task)) return node.member.mark_broken(task.epoch);
    const std::vector<Origin>& state = source->second->history;
    if (task.share && node.history.size() != task.step) node.history = state;
    if (node.history.size() != task.step) record_failure("the source does not hold the state");
    node.member.mark_linked(task.epoch);
  }

  /// Gives the rank its share of a sharded state, which the members must hold together. Returns
  /// false if a member is gone.
  bool deal_state(Node& node, const Task& task) {
    Parts there;
    for (const Seat& seat : task.members) {
      const auto found = nodes_.find(seat.rank);
      if (found == nodes_.end() || found->second->self != seat) return false;
      if (found->second->member.epoch() != task.epoch) return false;
      if (found->second->history.size() == task.step) there |= found->second->parts;
    }
    if (!there.all()) record_failure("the members do not hold every part of the state");
    if (node.history.size() != task.step) {
      node.parts.reset();
      node.formed_parts.reset();
    }
    node.parts |= share_of(task.members, node.self);
    return true;
  }

  /// The sum is there when every member has contributed; one that is gone breaks it.
  void work_on_step(Node& node, const Task& task) {
    node.contributed = true;
    for (const Seat& seat : task.members) {
      const auto found = nodes_.find(seat.rank);
      const bool gone = found == nodes_.end() || found->second->self != seat ||
                        found->second->member.epoch() != task.epoch;
      if (gone) return node.member.mark_broken(task.epoch);
      const Node& other = *found->second;
      const bool has = other.held.epoch == task.epoch || other.history.size() > task.step ||
                       (other.contributed && other.doing.kind == Task::Kind::work);
      if (!has) return;
    }
    node.held = {task.epoch, task.decided};
    node.member.mark_reduced(task.epoch, task.step);
  }

  const std::uint32_t ranks_;
  Adversity adversity_;
  Rng rng_;
  Nanos now_ = 0;
  std::unique_ptr<Coordinator> coordinator_;
  Journal journal_;
  std::map<std::uint32_t, std::unique_ptr<Node>> nodes_;
  std::map<std::uint32_t, std::uint32_t> lives_;
  std::vector<Message> network_;

  std::vector<std::uint64_t> finals_;  ///< epoch of every committed step
  std::map<Step, Origin> origins_;     ///< origin of the first application
  std::map<std::uint64_t, std::vector<Seat>> agreed_;
  std::set<std::uint64_t> decided_;
  std::uint64_t proposals_ = 0, kills_ = 0;
  std::string wrong_;
};

}  // namespace orrery::live::membership
