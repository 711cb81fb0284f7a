// Communications of a folded execution trace. Driven by sim/estimates/step/trace_run; one thread.
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

/// Scheduler of the collectives and messages of a folded execution trace. A communication waits
/// until all members that begin it have reached it, then for its turn in each of its classes, of
/// which each executes one communication at a time; then the communication passes through its
/// phases on the engine. Not thread-safe.
class TraceCommunications {
 public:
  /// Owner of the classes' programs, which this object notifies.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// Returns true if all dependencies of the operation have ended.
    virtual bool is_reached(ClassOp at) const = 0;
    /// Attributes the time of a class since its last change; called before a communication of the
    /// class begins or ends.
    virtual void account_class(std::uint32_t of_class) = 0;
    /// Marks a class that may be able to start an operation.
    virtual void mark_class(std::uint32_t of_class) = 0;
    /// Records the end of an operation.
    virtual void on_op_end(ClassOp at) = 0;
    /// Processes all recorded ends.
    virtual void process_ends() = 0;
  };
  /// Builds the communications. All arguments must outlive this object.
  TraceCommunications(Engine& engine, const ChakraTrace& trace, const FoldedTrace& folded,
                      const TracePlan& plan, Owner& owner);

  /// Returns true if a collective of the class or a message that the class sends is in flight; a
  /// message to the class does not count.
  bool is_busy(std::uint32_t of_class) const { return classes_[of_class].busy; }
  /// Returns true if the message of a receive has arrived. Call for a receive that has been
  /// reached.
  bool is_over(ClassOp receive) const { return all_[number_of(receive)].over; }
  /// Records that a send or a collective has been reached; after the last member, marks the classes
  /// of the communication at the owner, and starts nothing: start_next() does. Call once per
  /// operation.
  void record_reached(ClassOp at);
  /// Starts the communication whose turn it is in a class, if all classes that begin it are free; a
  /// later one does not overtake it. Does nothing if the class is busy or has no communication that
  /// all members have reached. The owner gets account_class(), and mark_class() and on_op_end() at
  /// the end, which may be within this call; after an end outside of this call also process_ends().
  void start_next(std::uint32_t of_class);

  /// Returns, for a communication that never began or never ended, a member that waits and a member
  /// that it waits for; nothing if no such pair exists.
  std::optional<std::pair<ClassOp, ClassOp>> stuck_pair() const;

 private:
  /// Priority of a communication in a class: messages before collectives, because another rank
  /// waits idle for a message and messages are short; then the least id, then the number of the
  /// communication.
  using Turn = std::tuple<bool, std::uint64_t, std::uint32_t>;
  /// Collective or message of whole classes.
  struct Communication {
    const std::vector<TracePhase>* phases = nullptr;
    std::vector<ClassOp> starts;  ///< operations that must have been reached before the begin
    /// Operations that end with the communication; a receive must also have been reached.
    std::vector<ClassOp> ends;
    std::uint32_t missing = 0;    ///< entries of `starts` not yet reached
    bool over = false;
  };
  /// Communication state of one class.
  struct ClassState {
    const RankProgram* program = nullptr;
    /// Communication of each operation; the largest value for operations without one.
    std::vector<std::uint32_t> number;
    bool busy = false;
    std::set<Turn> startable;  ///< communications that all members have reached, by priority
  };

  /// Adds a communication.
  void add(Communication communication);
  std::uint32_t number_of(ClassOp at) const { return classes_[at.of_class].number[at.op]; }
  const TraceOp& op(ClassOp at) const { return classes_[at.of_class].program->ops[at.op]; }
  /// Returns the priority of a communication in the class of `at`.
  Turn priority_of(ClassOp at, std::uint32_t number) const;
  /// Returns true if all classes that begin the communication are free.
  bool can_start(const Communication& communication) const;
  /// Starts a communication and marks its classes as busy.
  void start(std::uint32_t number);
  /// Starts phase `at` of a communication, or ends the communication after the last phase.
  void phase(std::uint32_t number, std::size_t at);
  /// Ends a communication and frees its classes.
  void end(std::uint32_t number);

  Engine& engine_;
  const TracePlan& plan_;
  Owner& owner_;
  std::vector<ClassState> classes_;
  std::vector<Communication> all_;
};

}  // namespace orrery::estimates
