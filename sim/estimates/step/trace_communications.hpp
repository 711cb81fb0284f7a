// The collectives and messages of a folded execution trace: each waits until all that begin it have
// reached it, then for its turn among those of its classes, of which each has one under way; then
// it passes through its phases on the engine. Driven by sim/estimates/step/trace_run; one thread.
// Seconds.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/estimates/engine/engine.hpp"
#include "sim/estimates/plan/trace_plan.hpp"
#include "traces/chakra/trace_fold.hpp"

namespace orrery::estimates {

class TraceCommunications {
 public:
  /// Who runs the classes' programs.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// Nothing that it depends on is left.
    virtual bool is_reached(ClassOp at) const = 0;
    /// Its class begins or ends to communicate: what it did so far goes to its account.
    virtual void account(std::uint32_t of_class) = 0;
    /// The class may start something.
    virtual void touch(std::uint32_t of_class) = 0;
    virtual void ended(ClassOp at) = 0;
    /// Passes on what has ended.
    virtual void settle() = 0;
  };
  /// All outlive this.
  TraceCommunications(Engine& engine, const ChakraTrace& trace, const FoldedTrace& folded,
                      const TracePlan& plan, Owner& owner);

  /// The class has one under way.
  bool busy(std::uint32_t of_class) const { return classes_[of_class].busy; }
  /// Of a receive that has been reached: its message has come.
  bool over(ClassOp receive) const { return all_[number_of(receive)].over; }
  /// A send or a collective has been reached.
  void reached(ClassOp at);
  /// Those whose turn it is begin, if they can.
  void start_next(std::uint32_t of_class);

  /// Of one that never began, or never ended: a member that waits and one that it waits for.
  std::optional<std::pair<ClassOp, ClassOp>> stuck() const;

 private:
  /// Messages before collectives: another rank waits for one with nothing to do, and it is short.
  /// Then the least id, then the communication.
  using Turn = std::tuple<bool, std::uint64_t, std::uint32_t>;
  /// A collective or message of whole classes.
  struct Communication {
    const std::vector<TracePhase>* phases = nullptr;
    std::vector<ClassOp> starts;  ///< all must have been reached
    std::vector<ClassOp> ends;    ///< end with it; a receive also has to be reached
    std::uint32_t missing = 0;    ///< of `starts`
    bool over = false;
  };
  struct ClassState {
    const RankProgram* program = nullptr;
    std::vector<std::uint32_t> number;  ///< by op: of its communication, if it has one
    bool busy = false;
    std::set<Turn> startable;  ///< that all have reached
  };

  void add(Communication communication);
  std::uint32_t number_of(ClassOp at) const { return classes_[at.of_class].number[at.op]; }
  const TraceOp& op(ClassOp at) const { return classes_[at.of_class].program->ops[at.op]; }
  Turn turn(ClassOp at, std::uint32_t number) const;
  bool free_to_start(const Communication& communication) const;
  void start(std::uint32_t number);
  void phase(std::uint32_t number, std::size_t at);
  void end(std::uint32_t number);

  Engine& engine_;
  const TracePlan& plan_;
  Owner& owner_;
  std::vector<ClassState> classes_;
  std::vector<Communication> all_;
};

}  // namespace orrery::estimates
