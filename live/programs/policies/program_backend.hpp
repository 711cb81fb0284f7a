// Backend for a user's program: its ranks are a job of the policies' interface, on a node whose GPU
// g is the place of rank g. Live counterpart of live/run/live_backend for programs that Orrery does
// not know. Used by `orrery run --policy`. One thread; nanoseconds of the policy clock, which
// starts with the policies. A step is an item of orrery.torch.state().steps(...), in programs
// without that call an optimizer step. Each rank waits in its first optimizer step until the
// policies have answered the start of the job.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "live/programs/policies/program_attempts.hpp"
#include "live/programs/policies/program_collectives.hpp"
#include "live/programs/policies/program_job.hpp"
#include "live/programs/policies/program_plans.hpp"
#include "live/programs/policies/program_progress.hpp"
#include "live/programs/policies/program_rules.hpp"
#include "live/run/observations/policy_clock.hpp"
#include "live/run/observations/policy_ticks.hpp"
#include "policies/record/past.hpp"
#include "policies/seam/backend.hpp"
#include "policies/seam/gate.hpp"

namespace orrery::live {

/// Queue of the news of the ranks, which are applied between two calls of the policies.
class ProgramNews : public ProgramListener {
 public:
  /// Message, loss or join of a rank.
  struct Item {
    enum class Kind : std::uint8_t { message, loss, joined } kind{};
    std::size_t rank = 0;
    Fields fields = {};      ///< content of a message
    std::uint64_t step = 0;  ///< steps that were done when the rank joined
  };
  void on_message(std::size_t rank, const Fields& fields) override {
    items_.push_back({Item::Kind::message, rank, fields});
  }
  void on_loss(std::size_t rank) override { items_.push_back({Item::Kind::loss, rank}); }
  void on_joined(std::size_t rank, std::uint64_t step) override {
    items_.push_back({Item::Kind::joined, rank, {}, step});
  }
  /// Returns the news since the last call, oldest first.
  std::vector<Item> drain_items() { return std::exchange(items_, {}); }

 private:
  std::vector<Item> items_;
};

/// Backend that runs a program. Losses that the process groups carry need no decision: the other
/// ranks go on. A decision may replace lost ranks, start all ranks again, change the interval of
/// snapshots or order one, and set shares, as far as ProgramFeatures allow.
class ProgramBackend : public Backend, private Carrier {
 public:
  /// Rules of a run.
  struct Options {
    std::string name;                ///< name of the job
    bool restarts_alone = false;     ///< true: a lost attempt starts again without a decision
    bool begins_alone = false;       ///< true: the ranks begin without an answer of the policies
    bool waits_for_answers = false;  ///< true: decisions need approvals, which take time
    /// Returns the changes of parameters that operators have ordered since the last call.
    std::function<std::vector<ParameterSet>()> drain_parameters = {};
    ProgramCollectives* collectives = nullptr;  ///< null: NCCL's plugins are not offered
    std::string no_table = {};  ///< reason why a program without PyTorch takes no table
    Past* past = nullptr;       ///< calls before a takeover (ProgramAttempts); null: none
  };

  /// Starts nothing. All references must outlive this object.
  ProgramBackend(ProgramAttempts& attempts, const Cluster& cluster, Options options);

  /// Starts the ranks and blocks until all that are left wait in their first step, or a rank loads
  /// NCCL without PyTorch. Returns false if the program has ended before. Call once, before all
  /// other methods. Throws as ProgramRun, and an environment Error, once the program has ended, if
  /// its groups are not the fault-tolerant ones.
  bool await_first_step();
  /// Returns the parts of the program that are attached. Call after await_first_step().
  const ProgramFeatures& features() const { return features_; }
  /// Ends the program before its first step, and blocks until it has ended.
  void end_program();

  /// Returns the features of the attached program. Call after await_first_step().
  Capabilities capabilities() const override { return features_.capabilities(); }
  const Cluster& cluster() const override { return cluster_; }
  /// Submits the job. The ranks begin now if Options::begins_alone, else with the first apply().
  void begin(const Needs& needs) override;
  /// Blocks until the next event, tick or wake-up. Returns nothing once the program has ended.
  /// Throws as ProgramRun.
  std::optional<Observation> next() override;
  /// Carries out the decisions. Call once after each next().
  void apply(const DecisionList& decisions) override;
  /// Returns the number of decisions that had an effect so far.
  std::uint64_t applied_decisions() const { return counts_.applied; }
  /// Attends to the ranks while a policy decides: losses are carried through at once and shown
  /// later. Returns true if no rank runs.
  bool attend_ranks();

 private:
  /// Stage of the run. `waiting`: for the first step. `starting`: the job is submitted.
  /// `restarting`: all ranks have started again. `held`: no rank runs, and a decision may start
  /// them again. `repeating`: the policies see the calls before a takeover.
  enum class Stage : std::uint8_t {
    waiting,
    repeating,
    starting,
    training,
    restarting,
    held,
    over
  };

  /// Duration of the newest step, and begin of the step in progress.
  struct Pace {
    Nanos began = 0, took = 0;
  };
  struct Counts {
    std::uint64_t calls = 0, applied = 0;
  };

  // Carrier
  std::string refusal(const Decision& decision) const override;
  bool is_step_open(JobId) const override { return stage_ == Stage::training && !is_between_; }
  void emit_event(Event event) override;
  void carry_out(const Decision& decision) override;

  TrainingRanks training_ranks() const;
  void advance_run(int wait_ms);
  void handle_news();
  void handle_message(std::size_t rank, const Fields& fields);
  void begin_ranks();
  void change_members(const std::vector<std::size_t>& lost, const std::vector<std::size_t>& joined);
  void settle_plans();
  void align_shares();
  void carry_assignment(const Assign& assign);
  void end_attempt();
  void end_job(Ending how);

  ProgramAttempts& attempts_;
  const Cluster& cluster_;
  const Options options_;
  ProgramFeatures features_;
  ProgramNews news_;
  PolicyClock clock_;
  PolicyTicks ticks_;
  ProgramJob job_;
  DecisionGate gate_;
  ProgramPlans plans_;
  ProgramProgress progress_;
  ProgramSamples samples_{progress_};
  Stage stage_ = Stage::waiting;
  bool is_between_ = false;              ///< true: between two steps of the job
  std::map<std::size_t, Fields> ready_;  ///< newest message "ready" of each rank that waits
  std::uint64_t agreed_ = 0;             ///< plan whose decision is carried out
  Pace pace_;
  Nanos held_until_ = 0;
  Counts counts_;
  std::vector<Event> shown_;
};

}  // namespace orrery::live
